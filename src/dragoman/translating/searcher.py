"""Jobs given to an engine: searched for, or scored as they are.

Shapes: B batch, S source length; special tokens included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, Search, Step, make_search, run, score_targets
from dragoman.errors import ConfigError, Setting
from dragoman.text.batching import pad_sources
from dragoman.translating.ensemble import Engine, note_beam
from dragoman.translating.jobs import Intake, Job


class Searcher:
    """Does all encoding and stepping, through ``engine`` alone; ``check`` is called before each step."""

    def __init__(
        self, engine: Engine, intake: Intake, device: torch.device, check: Callable[[], object] | None = None
    ) -> None:
        self.engine = engine
        self.intake = intake
        self.device = device
        self.check = check

    def search(self, batch: Sequence[Job], config: DecodeConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each job, best first."""
        search = self.begin(batch, config)
        for _ in self.running(search, batch, config):
            pass
        return search.results

    def begin(self, batch: Sequence[Job], config: DecodeConfig) -> Search:
        """A search that has made no step. Raises :class:`DataError` for a prefix that is longer than its limit."""
        note_beam(self.engine, config)
        limits = [self.intake.limit(job, config) for job in batch]
        lengths = [len(self.intake.with_special(job.source)) for job in batch]
        return make_search(
            len(batch),
            config,
            eos_id=self.intake.shape.eos_id,
            limits=limits,
            minimums=[config.least(length, limit) for length, limit in zip(lengths, limits, strict=True)],
            forbidden=self.intake.forbidden(config),
            prefixes=[job.prefix for job in batch],
            phrases=[job.phrases for job in batch],
            line_numbers=[job.line for job in batch],
        )

    def running(self, search: Search, batch: Sequence[Job], config: DecodeConfig) -> Iterator[None]:
        """The search of a batch, stopping after each step."""
        state = self.start([job.source for job in batch])
        return run(search, self.step(config), state, len(batch), self.intake.shape.bos_id, self.device)

    def step(self, config: DecodeConfig) -> Step:
        """The engine's step; to ``renormalize`` is to take what never comes away before probabilities are made."""
        step = self.engine.step if self.check is None else _checked(self.engine.step, self.check)
        if not config.renormalize:
            return step
        never = torch.tensor(self.intake.forbidden(config), device=self.device)

        def without(tokens: Tensor, state: Any, parents: Tensor | None = None) -> Tensor:
            return step(tokens, state, parents).index_fill(1, never, float("-inf"))

        return without

    def next_tokens(self, job: Job, config: DecodeConfig, count: int, among: Collection[int] | None) -> list[int]:
        """The likeliest ids right after the job's prefix, at most ``count``, of those ``among`` which it is chosen."""
        limit = len(job.prefix) + 1
        forbidden = set(self.intake.forbidden(config))
        if among is not None:
            forbidden |= set(range(self.intake.tokenizers.tgt.vocab_size)).difference(among)
        search = make_search(
            1,
            config.changed(beam_size=count, n_best=count, length_norm="none"),
            eos_id=self.intake.shape.eos_id,
            limits=[limit],
            minimums=[config.least(len(self.intake.with_special(job.source)), self.intake.limit(job, config))],
            forbidden=sorted(forbidden),
            prefixes=[job.prefix],
        )
        for _ in self.running(search, [job], config):
            pass
        return [found.tokens[-1] for found in search.results[0] if len(found.tokens) == limit]

    def scored(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], config: DecodeConfig
    ) -> list[Hypothesis]:
        """One target of each source, as a search would have reported it."""
        if not targets:
            return []
        shape = self.intake.shape
        state = self.start(sources)
        return score_targets(
            self.step(config), state, targets, config, bos_id=shape.bos_id, eos_id=shape.eos_id, device=self.device
        )

    @torch.no_grad()
    def start(self, sources: Sequence[list[int]]) -> Any:
        """The engine's state before the first step."""
        src, mask = self.padded(sources)
        return self.engine.start(self.engine.encode(src, mask), mask)

    def padded(self, sources: Sequence[list[int]]) -> tuple[Tensor, Tensor | None]:
        """Source ids and mask [B,S] on the device."""
        src, mask = pad_sources(sources, self.intake.shape)
        return src.to(self.device), None if mask is None else mask.to(self.device)


def _checked(step: Step, check: Callable[[], object]) -> Step:
    """A step that calls ``check`` before it computes; what that raises ends the search.

    Raises :class:`ConfigError` in place of StopIteration, which would look like the end of a loop of ours.
    """

    def checked(tokens: Tensor, state: Any, parents: Tensor | None = None) -> Tensor:
        try:
            check()
        except StopIteration as error:
            raise ConfigError(
                Setting("check"), " raised StopIteration, which ends loops and not calls; let it raise another error."
            ) from error
        return step(tokens, state, parents)

    return checked
