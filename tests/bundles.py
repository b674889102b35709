"""Small random models with real tokenizers, for tests of what stands above the model."""

from __future__ import annotations

from typing import Any

import torch

from dragoman.bundle import Bundle
from dragoman.config import DecodeConfig, ModelConfig, TokenizerConfig
from dragoman.model.transformer import Transformer
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

SRC_TEXT = [
    "The old ferry leaves the harbour at nine.",
    "Our neighbour paints her fence green.",
    "Nobody found the second key.",
    "A cold wind blows over the empty fields.",
]
TGT_TEXT = [
    "Die alte Fähre verlässt um neun den Hafen.",
    "Unsere Nachbarin streicht ihren Zaun grün.",
    "Niemand hat den zweiten Schlüssel gefunden.",
    "Ein kalter Wind weht über die leeren Felder.",
]
# Of many lengths; what a model of random weights makes of them does not matter.
LINES = [
    "The ferry leaves at nine.",
    "key",
    "Our old neighbour paints the empty harbour green at nine, and nobody found her.",
    "A second wind",
    "Nobody leaves the fields.",
    "Ärger über ein Ü: 北京 🙂",
]


def make_tokenizers(joint: bool = True, kind: str = "bpe") -> TokenizerPair:
    def train(texts: list[str]) -> Tokenizer:
        config = TokenizerConfig(kind=kind, vocab_size=300, min_frequency=1)
        return Tokenizer.train(config, texts)

    if joint:
        both = train(SRC_TEXT + TGT_TEXT)
        return TokenizerPair(both, both)
    return TokenizerPair(train(SRC_TEXT), train(TGT_TEXT))


def make_bundle(joint: bool = True, kind: str = "bpe", seed: int = 5, **changes: Any) -> Bundle:
    """A random model of 16 features. Its translations are nonsense of different lengths, each other's best or not."""
    tokenizers = make_tokenizers(joint, kind)
    shape: dict[str, Any] = {
        "src_vocab_size": tokenizers.src.vocab_size,
        "tgt_vocab_size": tokenizers.tgt.vocab_size,
        "d_model": 16,
        "n_heads": 2,
        "d_ff": 24,
        "n_encoder_layers": 2,
        "n_decoder_layers": 1,
        "max_length": 64,
    }
    torch.manual_seed(seed)
    model = Transformer(ModelConfig(**{**shape, **changes})).eval()
    # As they are drawn, all weights give nearly equal probabilities; a likelier </s> ends translations here and there.
    with torch.no_grad():
        model.output.weight.mul_(6.0)
        if model.output.bias is not None:
            model.output.bias[3] += 3.0
    decode = DecodeConfig(beam_size=3, max_length_ratio=1.0, max_length_extra=6)
    return Bundle(model, tokenizers, decode, "en", "de", "# A card\n")
