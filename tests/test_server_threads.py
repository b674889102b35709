"""The threads that work at the queue of a model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dragoman.errors import DataError, RunError
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Entry, Sentence, Texts
from dragoman.server.refusals import GoneError, InternalError, LateError, StoppingError
from dragoman.server.worker import Worker, _Watch
from dragoman.translation import Translation


def within(seconds: float) -> float:
    return time.monotonic() + seconds


class Fake:
    """A translator that shouts, and fails as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def interruptible(self, check: Callable[[], object]) -> Fake:
        return self

    def translate(self, texts: list[str], **options: Any) -> Any:
        self.batches.append(texts)
        for word, error in (
            ("bad", DataError("not that.")),
            ("worse", RunError("at /secret.")),
            ("bug", ZeroDivisionError()),
        ):
            if any(word in text for text in texts):
                raise error
        return [Translation(text.upper(), ids=[1]) for text in texts]


def at_work(job: Callable[[Worker, Fake], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        fake = Fake()
        worker = Worker("m", fake, 100, Metrics())  # type: ignore[arg-type]
        try:
            return await job(worker, fake)
        finally:
            if worker._loop is not None:
                await asyncio.to_thread(worker.stop)

    return asyncio.run(main())


def texts(*words: str, key: Any = "one", seconds: float = 60.0) -> Texts:
    future = asyncio.get_running_loop().create_future()
    sentences = [Sentence(word, 5) for word in words]
    return Texts(future, within(seconds), seconds, sentences=sentences, key=key, budget=1000)


def test_a_mistake_is_told_to_the_one_who_made_it() -> None:
    async def job(worker: Worker, fake: Fake) -> Any:
        entries = [texts("a", "b"), texts("bad"), texts("worse"), texts("bug"), texts("c")]
        for entry in entries:
            worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        return fake.batches, await asyncio.gather(*(entry.future for entry in entries), return_exceptions=True)

    batches, found = at_work(job)
    assert batches[0] == ["a", "b", "bad", "worse", "bug", "c"]
    assert [[sentence.found.text for sentence in one] for one in (found[0], found[4])] == [["A", "B"], ["C"]]
    assert (type(found[1]), str(found[1])) == (DataError, "not that.")
    assert [type(one) for one in found[2:4]] == [InternalError, InternalError]
    assert "secret" not in str(found[2])


def test_work_alone_and_late_work() -> None:
    async def job(worker: Worker, fake: Fake) -> Any:
        loop = asyncio.get_running_loop()

        def alone(work: Any) -> Entry:
            return Alone(loop.create_future(), within(60), 60, work=work)

        def left(translator: Any) -> None:
            raise GoneError

        late = texts("late", seconds=-2.0)
        entries: list[Entry] = [
            alone(lambda translator: translator is fake),
            alone(left),
            alone(lambda _: 1 // 0),
            late,
        ]
        for entry in entries:
            worker.queue.put(entry)
        worker.start(loop)
        return await asyncio.gather(*(entry.future for entry in entries), return_exceptions=True)

    found = at_work(job)
    assert found[0] is True
    assert [type(one) for one in found[1:]] == [LateError, InternalError, LateError]


def test_stopping_finishes_what_was_taken() -> None:
    async def job(worker: Worker, fake: Fake) -> Any:
        entries = [texts(f"t{number}", key=number) for number in range(20)]
        for entry in entries:
            worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        await asyncio.to_thread(worker.stop)
        return [(await entry.future)[0].found.text for entry in entries]

    assert at_work(job) == [f"T{number}" for number in range(20)]


class Stepping(Fake):
    """A translator whose every search has ``STEPS`` steps; before each it calls ``before`` with their number so far."""

    STEPS = 50

    def __init__(self, before: Callable[[int], object]) -> None:
        super().__init__()
        self.steps = 0
        self.before = before

    def interruptible(self, check: Callable[[], object]) -> Fake:
        made = Interruptible(self, check)
        made.batches = self.batches
        return made


class Interruptible(Fake):
    """One search of the above."""

    def __init__(self, of: Stepping, check: Callable[[], object]) -> None:
        super().__init__()
        self.of = of
        self.check = check

    def translate(self, texts: list[str], **options: Any) -> Any:
        for _ in range(Stepping.STEPS):
            self.of.before(self.of.steps)
            self.check()
            self.of.steps += 1
        return super().translate(texts, **options)


def stepping(job: Callable[[Worker, Stepping], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        fake = Stepping(lambda steps: None)
        worker = Worker("m", fake, 100, Metrics())  # type: ignore[arg-type]
        try:
            return await job(worker, fake)
        finally:
            await asyncio.to_thread(worker.stop)

    return asyncio.run(main())


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("how", ["gone", "late"])
def test_a_search_ends_when_nobody_waits_for_it(how: str, alone: bool) -> None:
    async def job(worker: Worker, fake: Stepping) -> None:
        def before(steps: int) -> None:
            if steps == 7 and how == "gone":
                entry.abandoned = True
            elif steps == 7:
                entry.deadline = within(-1)

        fake.before = before
        entry: Entry = texts("a", "b", "c")
        if alone:
            work = asyncio.get_running_loop().create_future()
            entry = Alone(work, within(60), 60, work=lambda translator: translator.translate(["a"]))
        worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        with pytest.raises(LateError, match="no answer within 60 s"):
            await entry.future
        assert fake.steps == 7
        # The model is free, and the rest of a request that was given up is not begun.
        other = texts("d")
        worker.queue.put(other)
        assert (await other.future)[0].found.text == "D"
        assert fake.batches == [["d"]]

    stepping(job)


def test_a_search_goes_on_for_one_who_waits() -> None:
    async def job(worker: Worker, fake: Stepping) -> None:
        gone, late, living = texts("a"), texts("b"), texts("c")

        def before(steps: int) -> None:
            if steps == 3:
                gone.abandoned = True
                late.deadline = within(-1)

        fake.before = before
        for entry in (gone, late, living):
            worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        assert (await living.future)[0].found.text == "C"
        assert (fake.steps, fake.batches) == (Stepping.STEPS, [["a", "b", "c"]])

    stepping(job)


@pytest.mark.parametrize("alone", [False, True])
def test_a_long_search_lets_light_ones_in(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of its steps, one at a time; each has its answer before the long one goes on."""
    monkeypatch.setattr("dragoman.server.worker._TURN_SECONDS", 0.0)

    async def job(worker: Worker, fake: Stepping) -> None:
        long: Entry = texts("long", "longer")
        if alone:
            work = asyncio.get_running_loop().create_future()
            long = Alone(work, within(60), 60, work=lambda translator: translator.translate(["long"]))
        light, heavy, inner = texts("light", key="2"), texts("heavy", key="3"), texts("inner", key="4")
        light.light = inner.light = True
        order: list[str] = []
        for name, entry in (("long", long), ("light", light), ("heavy", heavy), ("inner", inner)):
            entry.future.add_done_callback(lambda _, name=name: order.append(name))

        def before(steps: int) -> None:
            if steps == 5:
                worker.queue.put(heavy)
                worker.queue.put(light)
            if steps == 20:  # in the light one, which lets nobody in
                worker.queue.put(inner)

        fake.before = before
        worker.queue.put(long)
        worker.start(asyncio.get_running_loop())
        await asyncio.gather(*(entry.future for entry in (long, light, heavy, inner)))
        assert order[0] == "light"
        assert order.index("long") < order.index("heavy")
        assert [batch[0] for batch in fake.batches] == order
        assert fake.steps == 4 * Stepping.STEPS

    stepping(job)


def test_a_search_has_as_long_a_turn_as_those_it_lets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    calls: list[float] = []

    def turn() -> None:
        nonlocal now
        calls.append(now)
        now += 5.0

    watch = _Watch([Entry(None, deadline=1e9, seconds=1)], threading.Event(), turn)  # type: ignore[arg-type]
    for _ in range(40):
        watch()
        now += 0.5
    assert calls == [1.0, 11.0, 21.0, 31.0]
    assert watch.seconds == 20.0


@pytest.mark.parametrize("alone", [False, True])
def test_what_is_given_up_is_told_so(alone: bool) -> None:
    async def job(worker: Worker, fake: Stepping) -> None:
        loop = asyncio.get_running_loop()
        fake.before = lambda steps: worker.give_up() if steps == 9 else None
        first: Entry = texts("a", "b")
        if alone:
            first = Alone(loop.create_future(), within(60), 60, work=lambda translator: translator.translate(["a"]))
        entries = [first, texts("c", key="other"), Alone(loop.create_future(), within(60), 60)]
        for entry in entries:
            worker.queue.put(entry)
        worker.start(loop)
        found = await asyncio.gather(*(entry.future for entry in entries), return_exceptions=True)
        assert [type(one) for one in found] == [StoppingError] * 3
        assert (fake.steps, fake.batches) == (9, [])
        with pytest.raises(StoppingError):
            worker.queue.put(texts("d"))

    stepping(job)


def test_a_short_request_beside_a_huge_one_is_answered_within_two_batches() -> None:
    """Whether it may share its batches or not: the one that has begun, and then its own."""

    async def job(worker: Worker, fake: Stepping) -> None:
        like, other = texts("like"), texts("other", key="other")

        def before(steps: int) -> None:
            if steps == Stepping.STEPS // 2:  # in the first batch
                worker.queue.put(like)
                worker.queue.put(other)

        fake.before = before
        huge = texts(*(f"t{number}" for number in range(1000)))
        worker.queue.put(huge)
        worker.start(asyncio.get_running_loop())
        assert [one.found.text for one in await huge.future] == [f"T{number}" for number in range(1000)]
        assert [batch[0] for batch in fake.batches[:4]] == ["t0", "like", "other", "t399"]
        assert [len(batch) for batch in fake.batches[:4]] == [200, 200, 1, 200]

    stepping(job)


class Company(Fake):
    """A helper that works only when another one does at the same time."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self.barrier = barrier
        self.closed = 0

    def translate(self, texts: list[str], **options: Any) -> Any:
        self.barrier.wait(10)
        return super().translate(texts, **options)

    def close(self) -> None:
        self.closed += 1


def test_helpers_work_side_by_side_and_beside_what_needs_the_translator() -> None:
    barrier = threading.Barrier(3)
    helpers = [Company(barrier), Company(barrier)]

    async def main() -> Any:
        fake = Fake()
        worker = Worker("m", fake, 100, Metrics(), helpers)  # type: ignore[arg-type]
        alone = Alone(asyncio.get_running_loop().create_future(), within(60), 60, work=lambda one: barrier.wait(10))
        entries: list[Entry] = [texts("a", "b", "c"), texts("d"), alone]
        for entry in entries:
            worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        found = await asyncio.gather(*(entry.future for entry in entries))
        await asyncio.to_thread(worker.stop)
        return found, fake.batches

    found, own = asyncio.run(main())
    assert [[sentence.found.text for sentence in one] for one in found[:2]] == [["A", "B", "C"], ["D"]]
    assert sorted(len(batch) for helper in helpers for batch in helper.batches) == [2, 2]
    assert own == []
    assert [helper.closed for helper in helpers] == [1, 1]


class Slow(Fake):
    """A helper that works until it is told that it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.end = threading.Event()

    def translate(self, texts: list[str], *, check: Any = None, **options: Any) -> Any:
        while not self.end.wait(0.001):
            check()
        return super().translate(texts, **options)

    def close(self) -> None:
        """Nothing to end."""


@pytest.mark.parametrize("busy", [False, True])
def test_light_ones_are_done_beside_helpers_that_take_long(busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the translator of this process, unless it is used for something else."""
    monkeypatch.setattr("dragoman.server.worker._TURN_SECONDS", 0.0)
    helpers = [Slow(), Slow()]

    async def main() -> None:
        fake, going = Fake(), threading.Event()
        worker = Worker("m", fake, 100, Metrics(), helpers)  # type: ignore[arg-type]
        worker.start(asyncio.get_running_loop())
        long = texts("a", "b")
        worker.queue.put(long)
        while len(worker.queue):
            await asyncio.sleep(0.001)
        if busy:
            alone = Alone(asyncio.get_running_loop().create_future(), within(60), 60, work=lambda _: going.wait(10))
            worker.queue.put(alone)
            while len(worker.queue):
                await asyncio.sleep(0.001)
        light = texts("light", key="other")
        light.light = True
        worker.queue.put(light)
        if busy:
            await asyncio.sleep(0.1)
            assert fake.batches == []
            going.set()
        assert (await light.future)[0].found.text == "LIGHT"
        assert (fake.batches, long.future.done()) == ([["light"]], False)
        for helper in helpers:
            helper.end.set()
        await long.future
        await asyncio.to_thread(worker.stop)

    asyncio.run(main())


def test_a_mistake_with_helpers_is_told_once_too() -> None:
    barrier = threading.Barrier(1)
    helpers = [Company(barrier), Company(barrier)]

    async def main() -> Any:
        worker = Worker("m", Fake(), 100, Metrics(), helpers)  # type: ignore[arg-type]
        entries = [texts("a", "bad", "c", "d"), texts("e"), texts("f", "g")]
        for entry in entries:
            worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        found = await asyncio.gather(*(entry.future for entry in entries), return_exceptions=True)
        await asyncio.to_thread(worker.stop)
        return found

    found = asyncio.run(main())
    assert str(found[0]) == "not that."
    assert [[sentence.found.text for sentence in one] for one in found[1:]] == [["E"], ["F", "G"]]


def test_a_stream_counts_its_tokens() -> None:
    metrics = Metrics()

    async def main() -> None:
        worker = Worker("m", Fake(), 100, metrics)  # type: ignore[arg-type]
        sentence = Sentence("a", 7)

        def work(translator: Any) -> None:
            (sentence.found,) = translator.translate(["a"])

        entry = Alone(asyncio.get_running_loop().create_future(), within(60), 60, work=work, sentence=sentence)
        worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        await entry.future
        await asyncio.to_thread(worker.stop)

    asyncio.run(main())
    text = metrics.text().decode()
    assert 'dragoman_tokens_total{model="m",side="source"} 7.0' in text
    assert 'dragoman_tokens_total{model="m",side="target"} 1.0' in text
    assert "dragoman_batch_sentences_count{" in text
    assert 'dragoman_batch_sentences_count{model="m"} 0.0' in text
