"""Model cards of conversions: whence a model comes, and what goes along where one leaves."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman import __version__
from dragoman.model.transformer import Transformer

# With this begins, in every card of ours, how the folder is used: in another format it would mislead.
USE = "Translate with `dragoman translate THIS_FOLDER"


def card_of_weights(model: Transformer, langs: tuple[str, str], whence: str, faults: Iterable[str] = ()) -> str:
    """The card (Markdown) of a model that was a file of weights; ``faults`` are those that were kept."""
    config = model.config
    rows = [
        ("languages", f"{langs[0]} → {langs[1]}"),
        ("converted from", whence),
        ("parameters", f"{sum(parameter.numel() for parameter in model.parameters()):,}"),
        ("shape", f"{config.n_encoder_layers}+{config.n_decoder_layers} layers, d_model {config.d_model}, "
                  f"{config.n_heads} heads, d_ff {config.d_ff}"),
        ("made with", f"dragoman {__version__}"),
        *(("kept fault", fault) for fault in faults),
    ]  # fmt: skip
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])
    return f"# {langs[0]} → {langs[1]}\n\n{table}\n\n{USE} FILE`.\n"


def facts_of(card: str) -> str:
    """A card of ours without how to use the folder."""
    return card.partition(USE)[0].rstrip() + "\n"
