"""The parts of the server by themselves: the queue, the worker, documents, markup, detection, names."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.errors import DataError, RunError, UsageError
from dragoman.server.catalogue import Catalogue, named
from dragoman.server.detect import detect
from dragoman.server.documents import parts_of, put_together
from dragoman.server.languages import name_of
from dragoman.server.limits import Limits
from dragoman.server.markup import pieces_of, plain, written
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Dead, Entry, Queue, Sentence, Texts
from dragoman.server.refusals import BusyError, GoneError, InternalError, LateError, StoppingError
from dragoman.server.worker import Worker

TEXTS = st.text(st.sampled_from("aB.!? \n\t…。😀\u2028\r\"'«»()"), max_size=60) | st.text(max_size=40)


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


# the queue


def test_like_requests_share_a_batch_within_the_budget() -> None:
    queue = Queue(10)
    first, other, third = asked([10, 10]), asked([10], key="other"), asked([10] * 10)
    for entry in (first, other, third):
        queue.put(entry)
    batch = queue.take()
    assert sizes(batch) == [10] * 10
    assert {entry for entry, _ in batch} == {first, third}  # type: ignore[union-attr]
    assert (len(queue), third.taken) == (2, 8)
    assert sizes(queue.take()) == [10]
    assert sizes(queue.take()) == [10, 10]
    assert len(queue) == 0


def test_a_batch_is_not_mostly_padding_and_the_oldest_always_goes() -> None:
    queue = Queue(10)
    for tokens in ([90], [5], [90, 4], [400], [3]):
        queue.put(asked(tokens, budget=10_000))
    assert sizes(queue.take()) == [90, 5, 90, 4]  # more than half of it would be padding with the 3, and with the 400
    assert sizes(queue.take()) == [400, 3]
    queue.put(asked([500], budget=100))
    assert sizes(queue.take()) == [500]


def test_phrases_make_a_sentence_costlier() -> None:
    queue = Queue(10)
    for _ in range(4):
        queue.put(asked([10], budget=100))
        queue.put(asked([10], key="phrases", budget=100))
    for entry in queue._entries:
        assert isinstance(entry, Texts)
        entry.sentences[0].phrases = 4 if entry.key == "phrases" else 0
    assert [sizes(queue.take()) for _ in range(3)] == [[10] * 4, [10] * 2, [10] * 2]


@given(st.lists(st.tuples(st.lists(st.integers(1, 200), min_size=1, max_size=6), st.sampled_from("ab")), max_size=12))
def test_every_sentence_is_taken_once_in_the_order_of_its_request(requests: list[tuple[list[int], str]]) -> None:
    queue = Queue(100)
    entries = [asked(tokens, key=key, budget=256) for tokens, key in requests]
    for entry in entries:
        queue.put(entry)
    seen: list[tuple[Texts, Sentence]] = []
    while len(queue):
        batch: Any = queue.take()
        assert len({entry.key for entry, _ in batch}) == 1
        widths = sizes(batch)
        assert len(batch) == 1 or max(widths) * len(batch) <= 256
        seen += batch
    assert len(seen) == sum(len(tokens) for tokens, _ in requests)
    for entry in entries:
        assert [sentence for one, sentence in seen if one is entry] == entry.sentences


def test_a_full_queue_refuses_and_says_for_how_long() -> None:
    queue = Queue(2)
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
    assert [sizes(queue.take()) for _ in range(2)] == [[45, 20], [1]]
    assert queue.take() is None


def test_nothing_is_begun_that_is_late_or_that_nobody_wants() -> None:
    queue = Queue(10)
    late, left, good = asked([1], deadline=-1.0), asked([1]), asked([2])
    left.abandoned = True
    for entry in (good, late, left):
        queue.put(entry)
    dead = queue.take()
    assert isinstance(dead, Dead)
    assert dead.entries == [late, left]
    assert sizes(queue.take()) == [2]


def test_taking_waits_for_something_to_do() -> None:
    queue, found = Queue(10), []
    thread = threading.Thread(target=lambda: found.append(queue.take()))
    thread.start()
    time.sleep(0.05)
    assert not found
    queue.put(asked([3]))
    thread.join(5)
    assert sizes(found[0]) == [3]


@pytest.mark.parametrize(("last", "together"), [(2, True), (1, False)])
def test_a_batch_waits_for_those_that_were_answered_just_now(last: int, together: bool) -> None:
    """After a batch of several requests the next waits for as many to come; after a batch of one it does not."""
    queue = Queue(10)
    queue._last, queue._taken = last, time.monotonic() - 1.0
    queue.put(asked([5]))
    later = threading.Timer(0.005, lambda: [queue.put(asked([5])) for _ in range(2)])
    later.start()
    batch = sizes(queue.take())
    later.join()
    assert batch == ([5, 5, 5] if together else [5])


def test_a_batch_does_not_wait_for_long_nor_when_it_is_full() -> None:
    queue = Queue(10)
    for taken, tokens in ((1.0, [5]), (0.01, [5]), (1.0, [60, 60])):
        queue._last, queue._taken = 4, time.monotonic() - taken
        queue.put(asked(tokens))
        begun = time.monotonic()
        assert sizes(queue.take())[0] == tokens[0]
        assert time.monotonic() - begun < (0.5 if taken == 1.0 and tokens == [5] else 0.04)


# the worker


class Fake:
    """A translator that shouts, and fails as it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def translate(self, texts: list[str], **options: Any) -> Any:
        from dragoman.translation import Translation

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


# documents, markup


@given(TEXTS, st.booleans())
def test_the_parts_of_a_text_joined_are_the_text(text: str, split: bool) -> None:
    parts = parts_of(text, split)
    assert "".join(part.before + part.body + part.after for part in parts) == text
    assert put_together(parts, [part.body for part in parts]) == text
    for part in parts:
        assert part.body == part.body.strip()
        assert not (part.before + part.after).strip()
    assert all(part.body for part in parts) or len(parts) == 1
    assert split or len(parts) <= 1


def test_parts_are_put_together_as_documents_are() -> None:
    translator = Translator(make_bundle())
    for text in ("  A key. The wind!\n\n Who? ", "\n\n\nkey \n", "key\n\n", "a\r\nb", *LINES):
        parts = parts_of(text)
        found = [translator.translate(part.body).text for part in parts]
        assert put_together(parts, found) == translator.translate_document(text)


@given(st.text(st.sampled_from("<>/!-ab \"'=&;p"), max_size=40) | st.text(max_size=30))
def test_the_pieces_of_markup_joined_are_the_markup(markup: str) -> None:
    pieces = pieces_of(markup)
    assert "".join(piece.content for piece in pieces) == markup
    for piece in pieces:
        assert piece.is_text or piece.content.startswith("<")


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        ("<p class='x'>one <b>two</b></p>", ["one ", "two"]),
        ("a <!-- not <b>this</b> --> b", ["a ", " b"]),
        ("<script>if (a < b) { x }</script>c<STYLE>p > a</Style >d", ["c", "d"]),
        ("<code>x</code> y <br/><script/>z", [" y ", "z"]),
        ("1 < 2 and 3 > 2", ["1 < 2 and 3 > 2"]),
        ('<a title="a > b">c</a>', ["c"]),
        ("<!DOCTYPE html><?x y?>z", ["z"]),
        ("<pre>never closed", []),
        ("<a href='x", ["<a href='x"]),
    ],
)
def test_what_is_text_in_markup(markup: str, shown: list[str]) -> None:
    assert [piece.content for piece in pieces_of(markup) if piece.is_text] == shown


def test_references_are_read_and_written() -> None:
    assert plain("a &amp; b &lt;c&gt; &auml;&#8364;") == "a & b <c> ä€"
    assert written('a & b <c> "d"') == 'a &amp; b &lt;c&gt; "d"'


@pytest.mark.parametrize("piece", ["<a ", "<!--", "<a'", '<a "', "</", "<script>", "<", "<a b='", "<!-- -->"])
def test_markup_is_read_in_linear_time(piece: str) -> None:
    begun = time.perf_counter()
    pieces_of(piece * (20_000 // len(piece)))
    assert time.perf_counter() - begun < 2.0


# languages


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The old man reads a book in the garden.", "en"),
        ("Der alte Mann liest im Garten ein Buch.", "de"),
        ("Le vieil homme lit un livre dans le jardin.", "fr"),
        ("El hombre lee un libro y no está en la casa.", "es"),
        ("Старый человек читает книгу.", "ru"),
        ("老人在花园里看书。", "zh"),
        ("おじいさんは本を読んでいます。", "ja"),
        ("노인은 책을 읽는다", "ko"),
    ],
)
def test_languages_are_found(text: str, language: str) -> None:
    found = detect(text, ["en", "de", "fr", "es", "ru", "zh", "ja", "ko"])
    assert found[0][0] == language
    assert found[0][1] > found[1][1]
    assert sum(share for _, share in found) == pytest.approx(100, abs=1)


@given(TEXTS)
def test_detection_always_answers(text: str) -> None:
    found = detect(text, ["en", "de-AT", "xx"])
    assert sorted(code for code, _ in found) == ["de-AT", "en", "xx"]
    assert all(0 <= share <= 100 for _, share in found)
    assert detect(text, ["xx"]) == [("xx", 100.0)]


def test_nothing_known_is_shared_evenly() -> None:
    assert detect("", ["en", "de"]) == [("en", 50.0), ("de", 50.0)]
    assert detect("12 + 3", ["de", "en"]) == [("de", 50.0), ("en", 50.0)]


def test_names_of_languages() -> None:
    assert [name_of(code) for code in ("de", "pt-BR", "nb", "src")] == [
        "German",
        "Portuguese (BR)",
        "Norwegian Bokmål",
        "src",
    ]


# models


def test_names_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    assert named(["runs/best", "x=runs/best", "a=b", "runs/a=b"]) == [
        (None, Path("runs/best")),
        ("x", Path("runs/best")),
        (None, Path("a=b")),
        (None, Path("runs/a=b")),
    ]
    for name in ("", "a b", "-x", "x" * 101, "ä"):
        with pytest.raises(UsageError, match="cannot name a model"):
            named([f"{name}=runs"])


def test_two_models_of_one_name(tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    place = str(tmp_path / "model")
    with pytest.raises(UsageError, match='two models are called "en-de"; name them'):
        Catalogue.load([place, place], Limits(), Metrics(), device="cpu")
    found = Catalogue.load([place, f"other={place}"], Limits(), Metrics(), device="cpu")
    assert list(found.models) == ["en-de", "other"]
    assert found.models["other"].most_tokens == 64


def test_metrics_name_every_model() -> None:
    metrics = Metrics()
    meter = metrics.of_model("m", lambda: 3)
    meter.batch(4, 2, 40, 20, 0.1)
    meter.batch(2, 1, 10, 5, 0.1)
    text = metrics.text().decode()
    assert 'dragoman_batch_sentences_mean{model="m"} 3.0' in text
    assert 'dragoman_tokens_total{model="m",side="source"} 50.0' in text
    assert 'dragoman_queue_requests{model="m"} 3.0' in text
    assert re.search(r'dragoman_batch_requests_bucket\{le="1.0",model="m"\} 1\.0', text)
