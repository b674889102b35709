"""The queue of a model and the threads that work at it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError, RunError
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Dead, Entry, Queue, Sentence, Taker, Texts
from dragoman.server.refusals import BusyError, GoneError, InternalError, LateError, StoppingError
from dragoman.server.worker import Worker
from dragoman.translation import Translation


def within(seconds: float) -> float:
    return time.monotonic() + seconds


def asked(tokens: Sequence[int], key: Any = "one", deadline: float = 60.0, budget: int = 100) -> Texts:
    sentences = [Sentence(f"text {number}", count) for number, count in enumerate(tokens)]
    return Texts(asyncio.Future(loop=LOOP), within(deadline), deadline, sentences=sentences, key=key, budget=budget)


LOOP = asyncio.new_event_loop()


@pytest.fixture(scope="module", autouse=True)
def _loop_ends() -> Any:
    yield
    LOOP.close()


def sizes(batch: Any) -> list[int]:
    assert isinstance(batch, list)
    return [sentence.tokens for _, sentence in batch]


def one_taker(most: int) -> tuple[Queue, Taker]:
    queue = Queue(most)
    return queue, queue.taker()


# the queue


def test_like_requests_share_a_batch_within_the_budget() -> None:
    queue, taker = one_taker(10)
    first, other, third = asked([10, 10]), asked([10], key="other"), asked([10] * 10)
    for entry in (first, other, third):
        queue.put(entry)
    batch = queue.take(taker)
    assert sizes(batch) == [10] * 10
    assert {entry for entry, _ in batch} == {first, third}  # type: ignore[union-attr]
    assert (len(queue), third.taken) == (2, 8)
    assert sizes(queue.take(taker)) == [10]
    assert sizes(queue.take(taker)) == [10, 10]
    assert len(queue) == 0


def test_a_batch_is_not_mostly_padding_and_the_oldest_always_goes() -> None:
    queue, taker = one_taker(10)
    for tokens in ([90], [5], [90, 4], [400], [3]):
        queue.put(asked(tokens, budget=10_000))
    # More than half of it would be padding with the 3, and with the 400.
    assert sizes(queue.take(taker)) == [90, 5, 90, 4]
    assert sizes(queue.take(taker)) == [400, 3]
    queue.put(asked([500], budget=100))
    assert sizes(queue.take(taker)) == [500]


def test_phrases_make_a_sentence_costlier() -> None:
    queue, taker = one_taker(10)
    for _ in range(4):
        queue.put(asked([10], budget=100))
        queue.put(asked([10], key="phrases", budget=100))
    for entry in queue._entries:
        assert isinstance(entry, Texts)
        entry.sentences[0].phrases = 4 if entry.key == "phrases" else 0
    assert [sizes(queue.take(taker)) for _ in range(3)] == [[10] * 4, [10] * 2, [10] * 2]


@given(st.lists(st.tuples(st.lists(st.integers(1, 200), min_size=1, max_size=6), st.sampled_from("ab")), max_size=12))
def test_every_sentence_is_taken_once_in_the_order_of_its_request(requests: list[tuple[list[int], str]]) -> None:
    queue, taker = one_taker(100)
    entries = [asked(tokens, key=key, budget=256) for tokens, key in requests]
    for entry in entries:
        queue.put(entry)
    seen: list[tuple[Texts, Sentence]] = []
    while len(queue):
        batch: Any = queue.take(taker)
        assert len({entry.key for entry, _ in batch}) == 1
        widths = sizes(batch)
        assert len(batch) == 1 or max(widths) * len(batch) <= 256
        seen += batch
    assert len(seen) == sum(len(tokens) for tokens, _ in requests)
    for entry in entries:
        assert [sentence for one, sentence in seen if one is entry] == entry.sentences


def test_a_full_queue_refuses_and_says_for_how_long() -> None:
    queue, taker = one_taker(2)
    queue.rate = 10.0
    queue.put(asked([45]))
    queue.put(asked([20]))
    with pytest.raises(BusyError, match=r"try again in 7 s\.$") as caught:
        queue.put(asked([1]))
    assert caught.value.retry_after == 7
    queue.put(asked([1]), within=False)
    queue.close()
    with pytest.raises(StoppingError):
        queue.put(asked([1]))
    assert [sizes(queue.take(taker)) for _ in range(2)] == [[45, 20], [1]]
    assert queue.take(taker) is None


def test_nothing_is_begun_that_is_late_or_that_nobody_wants() -> None:
    queue, taker = one_taker(10)
    late, left, good = asked([1], deadline=-1.0), asked([1]), asked([2])
    left.abandoned = True
    for entry in (good, late, left):
        queue.put(entry)
    dead = queue.take(taker)
    assert isinstance(dead, Dead)
    assert dead.entries == [late, left]
    assert sizes(queue.take(taker)) == [2]


def test_taking_waits_for_something_to_do() -> None:
    (queue, taker), found = one_taker(10), []
    thread = threading.Thread(target=lambda: found.append(queue.take(taker)))
    thread.start()
    time.sleep(0.05)
    assert not found
    queue.put(asked([3]))
    thread.join(5)
    assert sizes(found[0]) == [3]


@pytest.mark.parametrize(("last", "together"), [(2, True), (1, False)])
def test_a_batch_waits_for_those_that_were_answered_just_now(last: int, together: bool) -> None:
    """After a batch of several requests the next waits for as many to come; after a batch of one it does not."""
    queue, taker = one_taker(10)
    taker.last, taker.taken = last, time.monotonic() - 1.0
    queue.put(asked([5]))
    later = threading.Timer(0.005, lambda: [queue.put(asked([5])) for _ in range(2)])
    later.start()
    batch = sizes(queue.take(taker))
    later.join()
    assert batch == ([5, 5, 5] if together else [5])


def test_a_batch_does_not_wait_for_long_nor_when_it_is_full() -> None:
    queue, taker = one_taker(10)
    for taken, tokens in ((1.0, [5]), (0.01, [5]), (1.0, [60, 60])):
        taker.last, taker.taken = 4, time.monotonic() - taken
        queue.put(asked(tokens))
        begun = time.monotonic()
        assert sizes(queue.take(taker))[0] == tokens[0]
        assert time.monotonic() - begun < (0.5 if taken == 1.0 and tokens == [5] else 0.04)


# several who take


def test_none_takes_more_than_its_share() -> None:
    queue = Queue(100)
    first, second, other = queue.taker(Texts), queue.taker(Texts), queue.taker(Alone)
    for _ in range(9):
        queue.put(asked([5]))
    assert len(sizes(queue.take(first))) == 5
    assert len(sizes(queue.take(second))) == 4
    for _ in range(8):
        queue.put(asked([5]))
    first.last = 0  # it does not wait for more
    assert len(sizes(queue.take(first))) == 6  # of the 8 that wait and the 4 that are worked at
    second.last = 0
    assert len(sizes(queue.take(second))) == 2
    queue.put(Alone(asyncio.Future(loop=LOOP), within(60), 60))
    assert isinstance(queue.take(other), Alone)


def test_one_request_is_shared_out_and_done_once() -> None:
    queue = Queue(100)
    takers = [queue.taker(Texts), queue.taker(Texts)]
    entry = asked([5] * 7)
    queue.put(entry)
    batches: list[Any] = [queue.take(taker) for taker in takers]
    assert [sentence for batch in batches for _, sentence in batch] == entry.sentences
    assert [queue.finish(entry, len(batch)) for batch in batches] == [False, True]


def test_each_takes_its_kind() -> None:
    queue = Queue(100)
    batches, alone = queue.taker(Texts), queue.taker(Alone)
    work = Alone(asyncio.Future(loop=LOOP), within(60), 60)
    queue.put(work)
    queue.put(asked([5]))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend((queue.take(batches), queue.take(batches))))
    thread.start()
    thread.join(0.1)
    assert (thread.is_alive(), len(queue)) == (True, 1)  # what is there is not for it
    assert queue.take(alone) is work
    queue.put(asked([6]))
    thread.join(5)
    assert [sizes(batch) for batch in found] == [[5], [6]]


def test_nobody_is_woken_before_there_is_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for five requests sleeps through the first four, unless they fill a batch."""
    for tokens, woken in ((5, 5), (60, 2)):
        queue, taker = one_taker(10)
        taker.last, taker.taken = 5, time.monotonic() - 60
        calls: list[int] = []
        notify = taker.changed.notify

        def noted(n: int = 1, calls: list[int] = calls, queue: Queue = queue, notify: Any = notify) -> None:
            calls.append(len(queue))
            notify(n)

        monkeypatch.setattr(taker.changed, "notify", noted)
        monkeypatch.setattr("dragoman.server.queue._LONGEST", 10.0)
        taken: list[Any] = []
        thread = threading.Thread(target=lambda taken=taken, queue=queue, taker=taker: taken.append(queue.take(taker)))
        thread.start()
        for _ in range(woken):
            while not taken and taker.until is None:  # until it sleeps
                time.sleep(0.001)
            queue.put(asked([tokens]))
        thread.join(5)
        # The first wakes it from having nothing; from then on it waits for the others.
        assert calls == [1, woken]
        assert sizes(taken[0]) == [tokens] * woken if tokens == 5 else sizes(taken[0]) == [tokens]


def test_all_hear_of_the_end() -> None:
    queue = Queue(10)
    takers = [queue.taker(Texts), queue.taker(Texts), queue.taker(Alone)]
    found: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: found.append(queue.take(one))) for one in takers]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    queue.close()
    for thread in threads:
        thread.join(5)
    assert found == [None] * 3


def test_two_empty_a_queue_in_half_the_time() -> None:
    queue = Queue(1)
    queue.taker(Texts)
    queue.taker(Texts)
    queue.taker(Alone)
    queue.rate = 10.0
    queue.put(asked([100]))
    with pytest.raises(BusyError, match=r"try again in 5 s\.$"):
        queue.put(asked([1]))


# the worker


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
