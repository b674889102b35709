"""The queue of a model: what shares a batch, who takes it, and when it is full."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.server.queue import Alone, Dead, Queue, Sentence, Taker, Texts
from dragoman.server.refusals import BusyError, StoppingError


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
def test_a_batch_waits_for_those_that_were_answered_just_now(
    last: int, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a batch of several requests the next waits for as many to come; after a batch of one it does not."""
    monkeypatch.setattr("dragoman.server.queue._LONGEST", 10.0)
    queue, taker = one_taker(10)
    taker.last, taker.taken = last, time.monotonic() - 60.0
    queue.put(asked([5]))
    later = threading.Timer(0.01 if together else 5.0, lambda: [queue.put(asked([5])) for _ in range(2)])
    later.start()
    batch = sizes(queue.take(taker))
    later.cancel()
    assert batch == ([5, 5, 5] if together else [5])


def test_a_batch_does_not_wait_for_long_nor_when_it_is_full() -> None:
    queue, taker = one_taker(10)
    for taken, tokens in ((1.0, [5]), (0.01, [5]), (1.0, [60, 60])):
        taker.last, taker.taken = 4, time.monotonic() - taken
        queue.put(asked(tokens))
        begun = time.monotonic()
        assert sizes(queue.take(taker))[0] == tokens[0]
        assert time.monotonic() - begun < (0.5 if taken == 1.0 and tokens == [5] else 0.04)


# in turns


def test_a_long_request_and_short_ones_take_turns() -> None:
    """Whoever comes while a long request is worked at waits for one batch of it, with its options or with others."""
    queue, taker = one_taker(100)
    huge = asked([10] * 1000)
    queue.put(huge)
    assert sizes(queue.take(taker)) == [10] * 10
    like, other, alone = asked([9]), asked([8], key="other"), Alone(asyncio.Future(loop=LOOP), within(60), 60)
    for entry in (like, other, alone):
        queue.put(entry)
    taker.last = 0  # it does not wait for more
    assert [sizes(queue.take(taker)) for _ in range(2)] == [[9] + [10] * 9, [8]]
    assert queue.take(taker) is alone
    second = asked([7] * 1000, key="other")
    queue.put(second)
    found = []
    for _ in range(6):
        taker.last = 0
        found.append(sizes(queue.take(taker))[0])
    assert found == [10, 7, 10, 7, 10, 7]
    assert huge.sentences[: huge.taken] == huge.sentences[: 10 + 9 + 3 * 10]


def test_a_batch_of_long_translations_is_small() -> None:
    """Tokens that have to come count like those of the source, and what may come is kept within memory."""
    queue, taker = one_taker(10)
    for least, most, size in ((0, 0, 500), (1024, 1024, 1), (100, 1024, 10), (20, 1024, 25), (2, 1024, 25)):
        entry = asked([2] * 500, budget=1024)
        entry.width = 5
        for sentence in entry.sentences:
            sentence.least, sentence.most = least, most
        queue.put(entry)
        assert len(sizes(queue.take(taker))) == size
        assert (size == 500) or 5 * size * most <= 1 << 17
        queue._keep([])


def test_light_batches_of_others_go_in_between() -> None:
    queue, taker = one_taker(100)
    huge, like, heavy, late = asked([10] * 20), asked([2] * 20), asked([10], key="other"), asked([10], deadline=-1.0)
    for entry in (huge, like, heavy, late):
        entry.light = entry is not heavy
    queue.put(huge)
    begun = {entry for entry, _ in queue.take(taker)}  # type: ignore[union-attr]
    assert (begun, queue.take_light(begun)) == ({huge}, None)
    for entry in (late, heavy, like):
        queue.put(entry)
    assert [sizes(queue.take_light(begun)) for _ in range(2)] == [[2] * 16, [2] * 4]
    assert queue.take_light(begun) is None
    assert (like.taken, late.taken) == (20, 0)
    assert (huge.taken, heavy.taken) == (10, 0)
    assert isinstance(queue.take(taker), Dead)
    assert sizes(queue.take(taker)) == [10]  # the heavy one, which came while the huge one had its turn
    assert sizes(queue.take(taker)) == [10] * 10


def test_what_is_dropped_at_the_end_is_named() -> None:
    queue, taker = one_taker(10)
    entries = [asked([5]), asked([6])]
    for entry in entries:
        queue.put(entry)
    assert queue.close(drop=True) == entries
    assert (queue.take(taker), len(queue)) == (None, 0)


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


def test_one_request_wakes_all_that_have_a_share_in_it() -> None:
    queue = Queue(100)
    takers, found = [queue.taker(Texts) for _ in range(3)], []
    threads = [threading.Thread(target=lambda one=one: found.append(queue.take(one))) for one in takers]
    for thread in threads:
        thread.start()
    while any(one.until is None for one in takers):  # until they sleep
        time.sleep(0.001)
    queue.put(asked([5] * 6))
    for thread in threads:
        thread.join(5)
    queue.close()  # where one sleeps on
    assert [len(sizes(batch)) for batch in found] == [2, 2, 2]


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
