"""The models of a server: their names and languages, and which of them a request means."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman.errors import UsageError, nearest
from dragoman.server.detect import detect
from dragoman.server.helper import HelperProcess
from dragoman.server.languages import name_of
from dragoman.server.limits import Limits
from dragoman.server.metrics import Metrics
from dragoman.server.problems import quoted
from dragoman.server.refusals import BadRequestError, NotFoundError
from dragoman.server.worker import Worker
from dragoman.translator import Translator

AUTO = "auto"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Served:
    """A model that is served. ``most_tokens``: source tokens of a sentence, special ones included."""

    name: str
    source: str
    target: str
    translator: Translator
    worker: Worker
    most_tokens: int


@dataclass(frozen=True)
class Found:
    """A language that was found for a text, and how sure that is, in per cent."""

    language: str
    confidence: float


def named(models: Sequence[str]) -> list[tuple[str | None, Path]]:
    """Names and places from ``MODEL`` and ``NAME=MODEL``. Raises :class:`UsageError` for a name that cannot be."""
    found: list[tuple[str | None, Path]] = []
    for model in models:
        name, mark, place = model.partition("=")
        if not mark or os.path.isdir(model) or "/" in name:
            found.append((None, Path(model)))
            continue
        if not _NAME.fullmatch(name):
            raise UsageError(f'"{name}" cannot name a model; use letters, digits, dots, - and _.')
        found.append((name, Path(place)))
    return found


class Catalogue:
    """Models by name, and by language pair."""

    def __init__(self, models: Sequence[Served]) -> None:
        self.models = {model.name: model for model in models}
        self.sources = list(dict.fromkeys(model.source for model in models))
        self.targets = list(dict.fromkeys(model.target for model in models))

    @classmethod
    def load(
        cls,
        models: Sequence[str],
        limits: Limits,
        metrics: Metrics,
        *,
        device: str = "auto",
        precision: str = "fp32",
        compile: bool = False,  # noqa: A002  # PyTorch's word
        helpers: int = 0,
        prepare: Callable[[], None] = lambda: None,
    ) -> Catalogue:
        """Read ``MODEL`` and ``NAME=MODEL``; a model without a name is called after its languages, such as en-de.

        ``device``, ``precision`` and ``compile`` are those of :meth:`Translator.load`.
        ``helpers``: processes that translate for each model, set up by ``prepare``, a function of a module; 0: this
        process does. Raises :class:`UsageError` for two of one name, and as :meth:`Translator.load` does.
        """
        found: dict[str, Served] = {}
        started: list[HelperProcess] = []
        for given, place in named(models):
            load = partial(Translator.load, place, device, precision, compile=compile)
            translator = load()
            bundle, intake = translator.bundle, translator.intake
            name = given or f"{bundle.src_lang}-{bundle.tgt_lang}"
            if name in found:
                raise UsageError(f'two models are called "{name}"; name them, as in NAME={place}.')
            most = min(intake.max_length, limits.sentence_tokens)
            own = [HelperProcess(load, prepare) for _ in range(helpers)]
            started += own
            worker = Worker(name, translator, limits.max_queue, metrics, own)
            found[name] = Served(name, bundle.src_lang, bundle.tgt_lang, translator, worker, most)
        for helper in started:
            helper.wait()
        return cls(list(found.values()))

    def languages(self) -> list[dict[str, object]]:
        """Every language with what it can be translated into; a :class:`~dragoman.server.answered.Language` each."""
        targets: dict[str, list[str]] = {code: [] for code in sorted({*self.sources, *self.targets})}
        for model in self.models.values():
            if model.target not in targets[model.source]:
                targets[model.source].append(model.target)
        return [{"code": code, "name": name_of(code), "targets": sorted(found)} for code, found in targets.items()]

    def choose(self, name: str | None, source: str | None, target: str | None) -> Served:
        """The first model that fits; None leaves something open.

        Raises :class:`NotFoundError` for a name, :class:`BadRequestError` for languages, that there are not.
        """
        fitting = list(self.models.values())
        if name is not None:
            if name not in self.models:
                raise NotFoundError(
                    f"no model is called {quoted(name)}{nearest(name, list(self.models))}; GET /v1/models lists them."
                )
            fitting = [self.models[name]]
        for side, code, known in (("source", source, self.sources), ("target", target, self.targets)):
            if code is None:
                continue
            if code.lower() not in [one.lower() for one in known]:
                raise BadRequestError(f"{code} is not supported as {side}; GET /languages lists what is.")
            fitting = [one for one in fitting if getattr(one, side).lower() == code.lower()]
        if not fitting:
            wanted = " to ".join(part for part in (source, target) if part)
            by = "" if name is None else f" of the name {quoted(name)}"
            raise BadRequestError(f"no model{by} translates {wanted}; GET /languages lists what there is.")
        return fitting[0]

    def detect(self, text: str, target: str | None = None, name: str | None = None) -> list[Found]:
        """The languages that a text may be in, likeliest first: those with a way to ``target``, with that model."""
        able = [
            model.source
            for model in self.models.values()
            if (target is None or model.target.lower() == target.lower()) and name in (None, model.name)
        ]
        able = list(dict.fromkeys(able)) or self.sources
        return [Found(code, share) for code, share in detect(text, able)]
