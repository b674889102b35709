"""A translator whose searches can be ended between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.errors import RunError

LENGTHS = {"min_length": 29, "max_length": 30}
CALLS: dict[str, Callable[[Translator], object]] = {
    "greedy": lambda one: one.translate(LINES[2], beam_size=1, **LENGTHS),
    "beam": lambda one: one.translate(LINES, beam_size=4, **LENGTHS),
    "drawing": lambda one: one.translate(LINES[:2], sample=True, **LENGTHS),
    "phrases": lambda one: one.translate(LINES[0], constraints=["Zaun"], **LENGTHS),
    "renormalized": lambda one: one.translate(LINES[0], renormalize=True, **LENGTHS),
    "document": lambda one: one.translate_document(" ".join(LINES), **LENGTHS),
    "stream": lambda one: list(one.stream(LINES[2], beam_size=4, **LENGTHS)),
    "alternatives": lambda one: one.alternatives(LINES[0], n=2, **LENGTHS),
    "record": lambda one: one.record(LINES[0], **LENGTHS),
    "force": lambda one: one.force(LINES[0], "Ein Zaun. " * 20),
}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


@pytest.fixture
def steps(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Gets an entry for each step of the engine."""
    made: list[None] = []
    real = translator.engine.step

    def step(*args: Any, **options: Any) -> Any:
        made.append(None)
        return real(*args, **options)

    monkeypatch.setattr(translator.engine, "step", step)
    return made


@pytest.mark.parametrize("name", CALLS)
def test_each_step_is_asked_for_and_changes_nothing(translator: Translator, steps: list[None], name: str) -> None:
    seen: list[int] = []
    found = CALLS[name](translator.interruptible(lambda: seen.append(len(steps))))
    assert seen == list(range(len(steps)))
    made = len(steps)
    assert made > 8
    assert str(CALLS[name](translator)) == str(found)
    assert (len(steps), len(seen)) == (2 * made, made)  # the translator itself is as it was


@pytest.mark.parametrize("name", CALLS)
def test_what_is_raised_ends_the_call_before_the_next_step(
    translator: Translator, steps: list[None], name: str
) -> None:
    def check() -> None:
        if len(steps) == 5:
            raise RunError("enough.")

    with pytest.raises(RunError, match=r"^enough\.$"):
        CALLS[name](translator.interruptible(check))
    assert len(steps) == 5


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", CALLS)
def test_another_search_between_two_steps_changes_neither(name: str, precision: str) -> None:
    """The state of each search is its own, so that a server may let one in while another goes on."""
    translator = Translator(make_bundle(), precision=precision)
    options: dict[str, Any] = {"beam_size": 3, "max_length": 9}
    alone, expected = CALLS[name](translator), translator.translate(LINES[1:3], **options)
    checks, inner = 0, []

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks % 4 == 0:
            inner.append(translator.translate(LINES[1:3], **options))

    assert str(CALLS[name](translator.interruptible(check))) == str(alone)
    assert len(inner) > 1
    assert {str(one) for one in inner} == {str(expected)}


def test_without_it_the_step_is_the_engine_s_own(translator: Translator) -> None:
    assert translator._searcher.step(translator.bundle.decode) == translator.engine.step


def test_the_last_one_counts(translator: Translator, steps: list[None]) -> None:
    first: list[int] = []
    second: list[int] = []
    both = translator.interruptible(lambda: first.append(0)).interruptible(lambda: second.append(0))
    both.translate(LINES[0], beam_size=2, max_length=9)
    assert (len(first), len(second)) == (0, len(steps))
