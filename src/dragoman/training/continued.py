"""Going on from a model directory (``train.init_from``): what the configuration leaves open is that model's."""

from __future__ import annotations

import logging
from pathlib import Path

from dragoman.bundle import Bundle, load_bundle
from dragoman.config import ModelConfig, RunConfig
from dragoman.errors import ConfigError
from dragoman.model.transformer import Transformer

logger = logging.getLogger("dragoman")

# What may differ between a model that training goes on from and the configuration: it is no part of the shape.
_FREE_FIELDS = {
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "embedding_dropout",
    "init",
    "bias_init",
    "embedding_init",
}
# Language codes that say nothing: a bundle's defaults.
_UNKNOWN = ("src", "tgt")


def continued_config(config: RunConfig) -> RunConfig:
    """``config`` with the shape, the tokenizers' kind and the search settings of the model that it goes on from.

    Dropout stays the configuration's, and so do search settings where it has any. Raises :class:`ConfigError` for
    all that the configuration sets otherwise than the model has it, and for a model of the opposite direction;
    other languages are a warning.
    """
    if config.train.init_from is None:
        return config
    folder = Path(config.data.dir) / config.train.init_from
    base = load_bundle(folder)
    _check_languages(config, base, folder)
    pair, shape = base.tokenizers, base.model.config
    own = {"kind": pair.src.kind, "joint": pair.joint, "vocab_size": max(pair.src.vocab_size, pair.tgt.vocab_size)}
    said = {name: getattr(config.tokenizer, name) for name in config.tokenizer.model_fields_set}
    other = [f"tokenizer.{name}" for name, value in own.items() if said.get(name, value) != value]
    _refuse([*_other_shape(shape, config.model), *other])
    return config.changed(
        model=_with_dropout(shape, config.model),
        tokenizer=config.tokenizer.changed(**own),
        decode=config.decode if "decode" in config.model_fields_set else base.decode,
    )


def _check_languages(config: RunConfig, base: Bundle, folder: Path) -> None:
    ours, theirs = (config.data.src_lang, config.data.tgt_lang), (base.src_lang, base.tgt_lang)
    if ours == theirs or _UNKNOWN in (ours, theirs):
        return
    said = f"{folder} translates {theirs[0]} → {theirs[1]}, and data says {ours[0]} → {ours[1]}"
    if ours == theirs[::-1]:
        raise ConfigError(f"{said}; swap the sides of the data, or take a model of this direction.")
    logger.warning("%s: check that this is what you want.", said)


def _other_shape(shape: ModelConfig, config: ModelConfig) -> list[str]:
    """The fields that the configuration sets otherwise than the model has them."""
    return [
        f"model.{name}"
        for name in ModelConfig.model_fields
        if name in config.model_fields_set - _FREE_FIELDS and getattr(config, name) != getattr(shape, name)
    ]


def _refuse(other: list[str]) -> None:
    if other:
        raise ConfigError(
            f"the model of train.init_from has other values for {', '.join(other)}; "
            "leave them out, or train without init_from."
        )


def _with_dropout(shape: ModelConfig, config: ModelConfig) -> ModelConfig:
    return shape.changed(**{name: getattr(config, name) for name in config.model_fields_set & _FREE_FIELDS})


def continued(base: Transformer, config: ModelConfig) -> Transformer:
    """``base`` with the dropout of ``config``; raises :class:`ConfigError` where ``config`` sets another shape."""
    _refuse(_other_shape(base.config, config))
    model = Transformer(_with_dropout(base.config, config))
    model.load_state_dict(base.state_dict())
    return model
