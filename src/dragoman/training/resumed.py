"""What a run that is resumed is asked to do otherwise than before, so that nothing changes in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dragoman.config import HeldOutCorpus, RunConfig, TrainConfig

# By these the text of an epoch is cut into batches: a place among the batches of one is another place in the text
# among those of the other. What else decides it stands in data and tokenizer, which never change.
_BATCHES = ("batch_tokens", "seed")


def fixed_settings(config: RunConfig) -> list[str]:
    """Names in ``train`` that a run keeps: ``best`` and its weights are of them, and the pairs held out of the text."""
    return ["init_from", "best_metric", *(["seed"] if isinstance(config.data.valid, HeldOutCorpus) else [])]


def batch_settings(train: TrainConfig) -> dict[str, Any]:
    """What the batches of a position were made with, for its checkpoint."""
    return {name: getattr(train, name) for name in _BATCHES}


def flat_settings(config: RunConfig) -> dict[str, Any]:
    """Each setting that may change between the parts of a run -> its JSON value."""
    parts = {"train": config.train.model_dump(mode="json"), "decode": config.decode.model_dump(mode="json")}
    return {"name": config.name} | {f"{part}.{name}": parts[part][name] for part in parts for name in parts[part]}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """``train.batch_tokens: 1024 -> 4096`` for every setting of ``before`` that is another now; empty for none."""
    return ", ".join(
        f"{name}: {_shown(old)} -> {_shown(now.get(name))}" for name, old in before.items() if now.get(name) != old
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
