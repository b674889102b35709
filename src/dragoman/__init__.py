"""dragoman: encoder-decoder Transformers that you can read, train, look inside and ship.

Names are imported when first used, so that ``import dragoman`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dragoman.config import DataConfig as DataConfig
    from dragoman.config import DecodeConfig as DecodeConfig
    from dragoman.config import ModelConfig as ModelConfig
    from dragoman.config import RunConfig as RunConfig
    from dragoman.config import TokenizerConfig as TokenizerConfig
    from dragoman.config import TrainConfig as TrainConfig
    from dragoman.configfile import load_config as load_config
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.model.transformer import Transformer as Transformer
    from dragoman.training.run import train as train
    from dragoman.translation import Translation as Translation
    from dragoman.translator import Translator as Translator

_HOMES = {
    "DataConfig": "dragoman.config",
    "DecodeConfig": "dragoman.config",
    "DragomanError": "dragoman.errors",
    "ModelConfig": "dragoman.config",
    "RunConfig": "dragoman.config",
    "TokenizerConfig": "dragoman.config",
    "TrainConfig": "dragoman.config",
    "Transformer": "dragoman.model.transformer",
    "Translation": "dragoman.translation",
    "Translator": "dragoman.translator",
    "load_config": "dragoman.configfile",
    "train": "dragoman.training.run",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
