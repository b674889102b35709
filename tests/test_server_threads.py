"""The threads that work at the queue of a model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman.errors import DataError, RunError
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Entry, Sentence, Texts
from dragoman.server.refusals import GoneError, InternalError, LateError
from dragoman.server.worker import Worker
from dragoman.translation import Translation


def within(seconds: float) -> float:
    return time.monotonic() + seconds


class Fake:
    """A translator that shouts, and fails as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

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
    assert [type(one) for one in found[1:]] == [GoneError, InternalError, LateError]


def test_stopping_finishes_what_was_taken() -> None:
    async def job(worker: Worker, fake: Fake) -> Any:
        entries = [texts(f"t{number}", key=number) for number in range(20)]
        for entry in entries:
            worker.queue.put(entry)
        worker.start(asyncio.get_running_loop())
        await asyncio.to_thread(worker.stop)
        return [(await entry.future)[0].found.text for entry in entries]

    assert at_work(job) == [f"T{number}" for number in range(20)]


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
