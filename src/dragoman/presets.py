"""Published shapes by name, each with its source; :meth:`dragoman.ModelConfig.preset` reads this table."""

from __future__ import annotations

from typing import Any

# "Attention Is All You Need" (Vaswani et al. 2017), section 3 and table 3: post-norm, no final norm, shared
# embeddings scaled by sqrt(d_model), dropout on sub-layer outputs and on embedding sums only (section 5.4).
_PAPER: dict[str, Any] = {
    "norm_first": False,
    "final_norm": False,
    "tie_embeddings": "all",
    "output_bias": False,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}

PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al., ACL 2021: the Transformer-Tiny that small corpora such as Multi30k want.
    "transformer-tiny": {
        "d_model": 128, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4, "d_ff": 256, "dropout": 0.3,
        "tie_embeddings": "all",
    },
    # Half of base in every direction; the usual choice for a few hundred thousand pairs.
    "transformer-small": {
        "d_model": 256, "n_heads": 4, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 1024, "dropout": 0.1,
        "tie_embeddings": "all",
    },
    "transformer-base": {
        **_PAPER, "d_model": 512, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 2048, "dropout": 0.1,
    },
    "transformer-big": {
        **_PAPER, "d_model": 1024, "n_heads": 16, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 4096, "dropout": 0.3,
    },
}  # fmt: skip
