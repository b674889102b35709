"""Initial values of the weights."""

from __future__ import annotations

import math

from torch import Tensor, nn

from dragoman.config import ModelConfig

_MARIAN_STD = 0.02


def initialise(module: nn.Module, config: ModelConfig) -> None:
    """Draw the matrices of ``module`` as ``config.init`` says; norms and learned positions keep their own.

    xavier: U(±sqrt(6 / (fan_in + fan_out))) (Glorot and Bengio 2010), each projection as a matrix of its own.
    kaiming: U(±sqrt(6 / fan_in)) (He et al. 2015). torch: PyTorch's own values. marian: N(0, 0.02²), the ``init_std``
    of Hugging Face's MarianConfig, whatever the fan (there the embeddings too: ``embedding_init: like_init``).
    Biases (``bias_init``): zero, or as PyTorch draws them, U(±1 / sqrt(fan_in)). Embeddings: N(0, 1/D), so that they
    have length 1 in expectation and unit variance once scaled by sqrt(D); or like the matrices (``embedding_init``).
    """
    bias = config.bias_init or ("torch" if config.init in ("kaiming", "torch") else "zero")
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            if config.embedding_init == "normal":
                nn.init.normal_(part.weight, std=config.d_model**-0.5)
            elif config.init != "torch":
                _matrix(part.weight, config.init)
        elif isinstance(part, nn.Linear):
            if config.init != "torch":
                _matrix(part.weight, config.init)
            if part.bias is not None and bias == "zero":
                nn.init.zeros_(part.bias)


def _matrix(weight: Tensor, rule: str) -> None:
    if rule == "xavier":
        nn.init.xavier_uniform_(weight)
    elif rule == "marian":
        nn.init.normal_(weight, std=_MARIAN_STD)
    else:
        bound = math.sqrt(6.0 / weight.shape[1])
        nn.init.uniform_(weight, -bound, bound)
