"""A training text that is read while it is used: each pair once, the same to the bit, resumed from any update."""

from __future__ import annotations

import gc
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from dragoman.config import DataConfig, HubCorpus, ModelConfig, RunConfig, TableCorpus, TextCorpus, TokenizerConfig
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.text import corpus as corpus_module
from dragoman.text import streaming
from dragoman.text.batching import Position
from dragoman.text.cleaning import DropCounts
from dragoman.text.corpus import write_corpus
from dragoman.text.recut import RecutCorpus
from dragoman.text.stream_batches import Part, StreamBatches, StreamCorpus
from dragoman.text.streaming import PartReader, number_of_parts, open_shards
from dragoman.text.tokenizer import TokenizerPair, train_tokenizers
from dragoman.training.dealing import Share, deal, whole
from dragoman.training.ranks import Ranks
from dragoman.training.run import Run, train
from test_ddp import WORKER, start_ranks
from tolerances import SAME_SUMS
from trainings import config_of, records, same, sentences, weights, write_reversed

SIZES = (23, 41, 17)
KINDS = ("aligned", "jsonl", "csv", "parquet", "saved", "hub jsonl", "hub parquet", "hub csv")
Pair = tuple[str, str]


def pairs_of(size: int, seed: int) -> list[Pair]:
    """Different pairs of 2 to 9 words."""
    src = sentences(size, seed, longest=9)
    return [(line, " ".join(reversed(line.split()))) for line in src]


@pytest.fixture(scope="module")
def files() -> list[list[Pair]]:
    """The pairs of three files."""
    return [pairs_of(size, seed) for seed, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, files: list[list[Pair]]) -> Path:
    """The same three files in every format."""
    path = tmp_path_factory.mktemp("text")
    for kind in ("jsonl", "csv", "parquet"):
        (path / kind).mkdir()
    for number, pairs in enumerate(files):
        rows = [{"translation": {"en": src, "de": tgt}, "id": place} for place, (src, tgt) in enumerate(pairs)]
        (path / "jsonl" / f"train-{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        pq.write_table(pa.Table.from_pylist(rows), path / "parquet" / f"train-{number}.parquet", row_group_size=7)
        lines = "".join(f"{src},{tgt}\n" for src, tgt in pairs)
        (path / "csv" / f"train-{number}.csv").write_text(f"en,de\n{lines}")
        for side, name in enumerate(("src", "tgt")):
            (path / f"train-{number}.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    every = [pair for pairs in files for pair in pairs]
    data = datasets.Dataset.from_dict({"en": [src for src, _ in every], "de": [tgt for _, tgt in every]})
    data.save_to_disk(str(path / "saved"))
    return path


def corpus_of(kind: str, folder: Path, **more: Any) -> TextCorpus | TableCorpus | HubCorpus:
    nested = {"src_field": "translation.en", "tgt_field": "translation.de"}
    flat = {"src_field": "en", "tgt_field": "de"}
    name = kind.removeprefix("hub ")
    fields = flat if name in ("csv", "saved") else nested
    if kind.startswith("hub"):
        return HubCorpus(hub=str(folder / name), streaming=True, **fields, **more)
    if kind == "aligned":
        sides = {side: [f"train-{number}.{side}" for number in range(3)] for side in ("src", "tgt")}
        return TextCorpus(**sides, streaming=True, **more)
    paths = ["saved"] if kind == "saved" else [f"{kind}/train-{number}.{kind}" for number in range(3)]
    return TableCorpus(path=paths, streaming=True, **fields, **more)


def read(
    corpus: TextCorpus | TableCorpus | HubCorpus, folder: Path, parts: int, epoch: int = 0
) -> list[tuple[int, Pair]]:
    shards = open_shards(corpus, folder)
    return [row for part in range(parts) for row in PartReader(shards, part, parts, (1, epoch), None)]


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_have_every_row_once_under_its_own_number(
    kind: str, parts: int, folder: Path, files: list[list[Pair]]
) -> None:
    rows = read(corpus_of(kind, folder), folder, parts)
    assert sorted(pair for _, pair in rows) == sorted(pair for pairs in files for pair in pairs)
    numbers = [number for number, _ in rows]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_part_goes_on_from_any_row(kind: str, parts: int, folder: Path) -> None:
    shards = open_shards(corpus_of(kind, folder), folder)
    for part in range(parts):
        rows = list(PartReader(shards, part, parts, (1, 2), None))
        for cut in (0, 1, 5, 7, len(rows) // 2, len(rows) - 1, len(rows)):
            reader = PartReader(shards, part, parts, (1, 2), None)
            assert list(islice(reader, cut)) == rows[:cut]
            place = json.loads(json.dumps(reader.place()))
            # Asking for the place changes nothing; reading to the end lets datasets close its files.
            assert list(reader) == rows[cut:]
            again = PartReader(shards, part, parts, (1, 2), place)
            # A place that nothing was read from since is the same place.
            assert again.place() == place
            assert list(again) == rows[cut:]


def test_the_order_of_files_is_of_the_seed_and_the_epoch(folder: Path) -> None:
    corpus = corpus_of("jsonl", folder)
    orders = {tuple(pair for _, pair in read(corpus, folder, 1, epoch)) for epoch in range(20)}
    assert len(orders) > 3
    assert read(corpus, folder, 1, 3) == read(corpus, folder, 1, 3)


def test_numbers_of_parts() -> None:
    assert number_of_parts(6, 5, 2) == 6
    assert [number_of_parts(None, shards, 1) for shards in (1, 5, 8, 11, 64)] == [1, 5, 8, 1, 8]
    assert [number_of_parts(None, shards, 2) for shards in (1, 3, 4, 10, 64)] == [2, 2, 4, 2, 8]
    assert number_of_parts(None, 32, 16) == 16


# Batches.


@pytest.fixture(scope="module")
def tokenizers(files: list[list[Pair]]) -> TokenizerPair:
    return train_tokenizers(TokenizerConfig(vocab_size=300), lambda: iter(pair for pairs in files for pair in pairs))


def batches_of(
    corpus: TextCorpus | TableCorpus | HubCorpus,
    folder: Path,
    tokenizers: TokenizerPair,
    rate: float = 0.0,
    seed: int = 1,
    keeps: Callable[[Pair], bool] = lambda pair: True,
    **data: Any,
) -> StreamBatches:
    settings = DataConfig(train=corpus, dir=str(folder), **data)
    stream = StreamCorpus(settings, tokenizers, rate, seed, keeps)
    return StreamBatches(stream, ModelConfig(), 120, seed, lambda text: None)


class Together:
    """Ranks as threads of one process, which hear of each other as real ones do."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=60)
        self.said: list[Any] = [None] * size

    def shares(self, batches: StreamBatches, accumulate: int, position: Position, updates: int) -> list[list[Share]]:
        """The first ``updates`` updates of each rank, the position after each made whole."""
        results: list[list[Share]] = [[] for _ in range(self.size)]
        errors: list[BaseException] = []

        def work(rank: int) -> None:
            ranks = _One(self, rank)
            try:
                for share in islice(deal(batches, ranks, accumulate, position), updates):
                    share.after = whole(share.after, ranks)
                    results[rank].append(share)
            except BaseException as error:
                self.barrier.abort()
                errors.append(error)

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
        return results


class _One(Ranks):
    def __init__(self, all_of_them: Together, rank: int) -> None:
        self.together = all_of_them
        self.rank = rank
        self.size = all_of_them.size

    def gather(self, value: Any) -> list[Any]:
        self.together.said[self.rank] = json.loads(json.dumps(value))
        self.together.barrier.wait()
        said = list(self.together.said)
        self.together.barrier.wait()
        return said

    def sum(self, values: Sequence[float]) -> list[float]:
        return [sum(column) for column in zip(*self.gather(list(values)), strict=True)]


def epoch_of(shares: list[Share]) -> list[Share]:
    """The updates up to the end of the first epoch."""
    end = next(place for place, share in enumerate(shares) if share.epoch_ends)
    return shares[: end + 1]


def content(shares: list[Share]) -> list[list[Any]]:
    """What the batches of some updates hold, in full."""
    return [
        [(b.indices, b.src.tolist(), b.tgt_in.tolist(), b.tgt_out.tolist()) for b in share.batches] for share in shares
    ]


MANY = 50


def updates_of(batches: StreamBatches, accumulate: int = 1) -> list[Share]:
    return list(islice(deal(batches, Ranks(), accumulate, Position()), MANY))


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["aligned", "hub parquet"])
def test_resuming_at_any_update_is_exact(kind: str, rate: float, folder: Path, tokenizers: TokenizerPair) -> None:
    """Over windows, files and epochs; the checkpoint in between is JSON."""
    corpus = corpus_of(kind, folder, shuffle_buffer=20, parts=2)
    shares = updates_of(batches_of(corpus, folder, tokenizers, rate))
    assert 2 <= shares[-1].after.epoch <= 10
    for cut in (1, 2, 3, 5, 8, 13, 21, 34):
        at = Position(*json.loads(json.dumps(list(shares[cut - 1].after))))
        rest = list(islice(deal(batches_of(corpus, folder, tokenizers, rate), Ranks(), 1, at), MANY - cut))
        assert content(rest) == content(shares[cut:])
        assert [(share.pairs, share.dropped, share.epoch_ends) for share in rest] == [
            (share.pairs, share.dropped, share.epoch_ends) for share in shares[cut:]
        ]


@pytest.mark.parametrize("kind", ["csv", "hub jsonl", "hub parquet"])
def test_resuming_over_and_over_is_exact(kind: str, folder: Path, tokenizers: TokenizerPair) -> None:
    """What ``datasets`` says of a place depends on where reading began, so each place here is of a resumed reader."""
    corpus = corpus_of(kind, folder, shuffle_buffer=14, parts=2)
    shares = updates_of(batches_of(corpus, folder, tokenizers))
    draw = random.Random(1)
    resumed: list[Share] = []
    while len(resumed) < MANY:
        at = Position(*json.loads(json.dumps(list(resumed[-1].after)))) if resumed else Position()
        batches = batches_of(corpus, folder, tokenizers)
        resumed += islice(deal(batches, Ranks(), 1, at), draw.randint(1, 6))
    assert content(resumed[:MANY]) == content(shares)


def test_an_epoch_has_each_pair_once_and_seeds_differ(folder: Path, tokenizers: TokenizerPair) -> None:
    corpus = corpus_of("jsonl", folder, shuffle_buffer=30)
    runs = [content(updates_of(batches_of(corpus, folder, tokenizers, seed=seed))) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    first = epoch_of(updates_of(batches_of(corpus, folder, tokenizers)))
    assert sum(share.pairs for share in first) == sum(SIZES)
    targets = [tuple(row) for share in first for batch in share.batches for row in batch.src.tolist()]
    assert max(Counter(targets).values()) == 1
    # The next epoch has other batches.
    assert runs[0][: len(first)] != runs[0][len(first) : 2 * len(first)]


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(("parts", "size"), [(2, 2), (3, 3), (4, 2), (6, 3)])
def test_ranks_share_an_epoch_of_uneven_parts(
    parts: int, size: int, accumulate: int, folder: Path, tokenizers: TokenizerPair
) -> None:
    """Three parts are the three files, of 17 to 41 pairs; nobody waits for a rank that has none left."""
    batches = batches_of(corpus_of("jsonl", folder, parts=parts, shuffle_buffer=16), folder, tokenizers)
    dealt = Together(size).shares(batches, accumulate, Position(), MANY)
    firsts = [epoch_of(shares) for shares in dealt]
    known = [(share.pairs, share.after, share.epoch_ends, share.dropped) for share in firsts[0]]
    for shares in firsts[1:]:
        assert [(share.pairs, share.after, share.epoch_ends, share.dropped) for share in shares] == known
    seen = Counter(index for shares in firsts for share in shares for batch in share.batches for index in batch.indices)
    assert sum(seen.values()) == len(seen) == sum(SIZES)
    for update, pairs in enumerate(share.pairs for share in firsts[0]):
        own = [shares[update].batches for shares in firsts]
        assert pairs == sum(len(batch.indices) for each in own for batch in each)
        assert all(len(each) <= accumulate for each in own)
    if parts == 3:
        assert any(not share.batches for shares in firsts for share in shares)


def test_two_ranks_make_what_one_makes_with_twice_the_accumulation(folder: Path, tokenizers: TokenizerPair) -> None:
    batches = batches_of(corpus_of("hub jsonl", folder, parts=4, shuffle_buffer=40), folder, tokenizers)
    one = updates_of(batches, accumulate=4)
    two = Together(2).shares(batches, 2, Position(), MANY)
    alike = 0
    for update, share in enumerate(epoch_of(one)):
        if len(two[0][update].batches) + len(two[1][update].batches) < 4:
            break
        rows = [content([ranks[update]])[0] for ranks in two]
        assert content([share])[0] == [batch for both in zip(*rows, strict=True) for batch in both]
        alike += 1
    assert alike >= 2


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 4), (4, 2)])
def test_another_number_of_ranks_goes_on_where_the_last_stopped(
    before: int, after: int, folder: Path, tokenizers: TokenizerPair
) -> None:
    batches = batches_of(corpus_of("parquet", folder, parts=4, shuffle_buffer=16), folder, tokenizers, 0.2)
    all_shares = [epoch_of(shares) for shares in Together(before).shares(batches, 1, Position(), MANY)]
    every = {row for shares in all_shares for share in shares for row in rows_of(share)}
    for cut in (1, 2, len(all_shares[0]) - 1):
        done = [row for shares in all_shares for share in shares[:cut] for row in rows_of(share)]
        at = all_shares[0][cut - 1].after
        rest = [epoch_of(shares) for shares in Together(after).shares(batches, 1, at, MANY)]
        done += [row for shares in rest for share in shares for row in rows_of(share)]
        assert len(done) == len(set(done))
        # BPE-dropout cuts them the same on any rank.
        assert set(done) == every


def rows_of(share: Share) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Number, source and target of each pair of an update, without padding."""
    rows = []
    for batch in share.batches:
        for place, number in enumerate(batch.indices):
            src = batch.src[place] if batch.src_mask is None else batch.src[place][batch.src_mask[place]]
            tgt = batch.tgt_in[place] if batch.tgt_mask is None else batch.tgt_in[place][batch.tgt_mask[place]]
            rows.append((number, tuple(src.tolist()), tuple(tgt.tolist())))
    return rows


def test_a_number_of_ranks_that_cannot_share_the_parts_is_refused(folder: Path, tokenizers: TokenizerPair) -> None:
    batches = batches_of(corpus_of("jsonl", folder, parts=2), folder, tokenizers)
    with pytest.raises(RunError, match=r"read in 2 parts, which 3 processes cannot share .* data\.train\.parts: 3\.$"):
        Together(3).shares(batches, 1, Position(), 1)


def test_cleaning_drops_and_counts_as_the_stored_corpus_does(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    draw = random.Random(3)
    pairs = [*pairs_of(60, 8), ("", "casa"), ("  ", "casa"), ("ana " * 90, "ana " * 90), ("ana", "bolo casa " * 9)]
    draw.shuffle(pairs)
    (tmp_path / "x.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    corpus = TableCorpus(path="x.tsv", streaming=True, shuffle_buffer=10)
    batches = batches_of(corpus, tmp_path, tokenizers, max_length=50, max_ratio=4.0)
    said: list[str] = []
    batches.say = said.append
    shares = epoch_of(updates_of(batches))
    stored = write_corpus(
        pairs, tokenizers, DataConfig(train=corpus, max_length=50, max_ratio=4.0), tmp_path / "stored"
    )
    assert stored.counts == DropCounts(kept=60, empty=2, too_long=1, over_ratio=1)
    assert said == [f"the first epoch is over:\n{stored.counts.table()}"]
    assert shares[-1].dropped == 4
    said.clear()
    rest = list(islice(deal(batches, Ranks(), 1, shares[len(shares) // 2].after), len(shares) - len(shares) // 2 - 1))
    assert (rest[-1].epoch_ends, rest[-1].dropped) == (True, 4)
    assert said == [f"the first epoch is over:\n{stored.counts.table()}"]
    assert sum(share.pairs for share in shares) == 60
    kept = Counter(tuple(map(tuple, (src, tgt))) for src, tgt in map(stored.pair, range(len(stored))))
    streamed = Counter((src[:-1], tgt[1:]) for share in shares for _, src, tgt in rows_of(share))
    assert streamed == kept


def test_held_out_pairs_never_come(folder: Path, files: list[list[Pair]], tokenizers: TokenizerPair) -> None:
    held = set(files[1][::3])
    batches = batches_of(corpus_of("csv", folder), folder, tokenizers, keeps=lambda pair: pair not in held)
    shares = epoch_of(updates_of(batches))
    assert sum(share.pairs for share in shares) == sum(SIZES) - len(held)
    assert shares[-1].dropped == 0


def test_bpe_dropout_is_that_of_the_stored_corpus(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    """One file, one part: the number of a pair is its place in the text, and so its tokens are the stored corpus's."""
    pairs = pairs_of(50, 4)
    (tmp_path / "x.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    corpus = TableCorpus(path="x.tsv", streaming=True, shuffle_buffer=17)
    data = DataConfig(train=corpus, dir=str(tmp_path))
    plain = write_corpus(pairs, tokenizers, data, tmp_path / "stored", words=True)
    stored = RecutCorpus(plain, tokenizers, 0.4, 1, data.max_length)
    shares = epoch_of(updates_of(batches_of(corpus, tmp_path, tokenizers, 0.4)))
    streamed = {number: (src[:-1], tgt[1:]) for share in shares for number, src, tgt in rows_of(share)}
    window = stored.window(np.arange(50), 0)
    assert streamed == {at: tuple(tuple(map(int, ids)) for ids in window.pair(at)) for at in range(50)}
    assert any(streamed[at] != tuple(tuple(map(int, ids)) for ids in plain.pair(at)) for at in range(50))


def test_going_on_costs_one_window_however_far_it_was(
    folder: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most three windows of ten pairs are tokenised before the first update: this one and those made ahead."""
    batches = batches_of(corpus_of("aligned", folder, parts=1, shuffle_buffer=10), folder, tokenizers)
    shares = updates_of(batches)
    tokenised: list[int] = []
    original = corpus_module.cut_texts

    def counted(tokenizer: Any, texts: list[str], words: bool) -> Any:
        tokenised.append(len(texts))
        return original(tokenizer, texts, words)

    monkeypatch.setattr("dragoman.text.stream_batches.cut_texts", counted)
    for cut in (3, 15, 33):
        tokenised.clear()
        stream = deal(batches, Ranks(), 1, shares[cut - 1].after)
        assert content([next(stream)]) == content([shares[cut]])
        stream.close()  # type: ignore[attr-defined]  # a generator
        assert sum(tokenised) <= 2 * 3 * 10


def test_files_are_closed_with_the_stream(
    folder: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is left open would complain when the process ends."""
    opened: list[int] = []
    closed: list[int] = []
    original = streaming.read_pairs

    def watched(*arguments: Any) -> Any:
        number = len(opened)
        opened.append(number)
        try:
            yield from original(*arguments)
        finally:
            closed.append(number)

    monkeypatch.setattr(streaming, "read_pairs", watched)
    batches = batches_of(corpus_of("aligned", folder, parts=3, shuffle_buffer=12), folder, tokenizers)
    stream = deal(batches, Ranks(), 1, Position())
    next(stream)
    # Kept here, as something in a process may keep it.
    kept = [each for each in gc.get_objects() if type(each) in (Part, PartReader)]
    stream.close()  # type: ignore[attr-defined]  # a generator
    assert len(opened) == 3
    assert sorted(closed) == opened
    assert len(kept) >= 6


def test_memory_holds_windows_alone(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    """The reader is never further ahead than the window in use and the next one."""
    (tmp_path / "x.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs_of(2000, 9)))
    corpus = TableCorpus(path="x.tsv", streaming=True, shuffle_buffer=50)
    batches = batches_of(corpus, tmp_path, tokenizers)
    reached = 0
    original = batches.corpus.reader

    def watched(*arguments: Any) -> PartReader:
        nonlocal reader
        reader = original(*arguments)
        return reader

    reader: PartReader | None = None
    batches.corpus.reader = watched  # type: ignore[method-assign]
    for share in islice(deal(batches, Ranks(), 1, Position()), 60):
        reached += share.pairs
        assert reader is not None
        assert reader.read <= reached + 150


# What is wrong is told.


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.jsonl", '{"en": "a", "de": "b"}\n{"en": "c"}\n', r'x\.jsonl, line 2: there is no field "de"'),
        ("x.jsonl", '{"en": "a", "de": "b"}\n{"en"\n', r"x\.jsonl, line 2: not valid JSON"),
        ("x.csv", 'en,de\na,b\nc,"d\n', r"x\.csv, line 3: the row that begins there is not valid CSV"),
    ],
)
def test_bad_rows_are_errors_with_file_and_line(
    name: str, text: str, message: str, tmp_path: Path, tokenizers: TokenizerPair
) -> None:
    (tmp_path / name).write_text(text)
    batches = batches_of(TableCorpus(path=name, src_field="en", tgt_field="de", streaming=True), tmp_path, tokenizers)
    with pytest.raises(DataError, match=message):
        updates_of(batches)


def test_bad_rows_of_a_data_set_are_errors_with_shard_and_row(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    rows = [[{"en": "a b", "de": "b"}] * 3, [{"en": "a", "de": "b"}, {"en": "a", "de": None}]]
    for number, each in enumerate(rows):
        pq.write_table(pa.Table.from_pylist(each), tmp_path / f"train-{number}.parquet")
    corpus = HubCorpus(hub=str(tmp_path), src_field="en", tgt_field="de", streaming=True)
    message = r'shard 2 of 2, row 2: the field "de" holds nothing, not text'
    with pytest.raises(DataError, match=message):
        updates_of(batches_of(corpus, tmp_path, tokenizers))
    # After going on the row is counted from the start of the shard too.
    at = {"shard": 0, "row": 1, "read": 1, "state": None}
    shards = open_shards(corpus, tmp_path)
    reader = PartReader(shards, 0, 1, (1, 0), None)
    while reader.place()["row"] != 1 or shards_order(reader) != 1:
        next(reader)
    again = PartReader(shards, 0, 1, (1, 0), reader.place())
    with pytest.raises(DataError, match=message):
        next(again)
    assert at.keys() == reader.place().keys()


def shards_order(reader: PartReader) -> int:
    """The shard that a reader is in."""
    return reader._order[reader._shard] if reader._shard < len(reader._order) else -1


def test_a_hub_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tokenizers: TokenizerPair) -> None:
    def fails(*arguments: Any, **more: Any) -> Any:
        raise ConnectionError("Couldn't reach 'someone/text' on the Hub (LocalEntryNotFoundError)\nlong story")

    monkeypatch.setattr(datasets, "load_dataset", fails)
    corpus = HubCorpus(hub="someone/text", src_field="en", tgt_field="de", streaming=True)
    with pytest.raises(DataError) as caught:
        batches_of(corpus, Path(), tokenizers)
    assert str(caught.value) == (
        "the data set \"someone/text\" cannot be loaded (Couldn't reach 'someone/text' on the Hub "
        "(LocalEntryNotFoundError)); check name, split and network."
    )


def test_a_network_that_fails_at_some_row_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tokenizers: TokenizerPair
) -> None:
    batches = batches_of(corpus_of("hub jsonl", folder, shuffle_buffer=8, parts=1), folder, tokenizers)
    original = datasets.IterableDataset.__iter__

    def fails_later(self: Any) -> Any:
        yield from islice(original(self), 12)
        raise TimeoutError("The read operation timed out")

    monkeypatch.setattr(datasets.IterableDataset, "__iter__", fails_later)
    with pytest.raises(DataError, match=r"cannot be loaded \(The read operation timed out\); check name, split and"):
        updates_of(batches)


def test_a_text_of_which_nothing_is_left(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    (tmp_path / "x.tsv").write_text("a\t\n" * 3)
    with pytest.raises(DataError, match=r"^no training pair is left of 3 read; check data\.train"):
        updates_of(batches_of(TableCorpus(path="x.tsv", streaming=True), tmp_path, tokenizers))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": {"path": "x.tsv", "shuffle_buffer": 5}}, "shuffle_buffer would have no effect without streaming"),
        ({"train": {"path": "x.tsv"}, "test": {"path": "y.tsv", "streaming": True}}, "test cannot be streaming"),
        ({"train": {"path": "x.tsv"}, "valid": {"path": "y.tsv", "streaming": True}}, "valid cannot be streaming"),
        ({"train": {"hub": "x", "src_field": "a", "tgt_field": "b", "streaming": True, "parts": 0}}, "parts"),
    ],
)
def test_settings_that_cannot_work(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DataConfig(**data)


# Whole runs.


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training text of four files of uneven size, validation and test text."""
    folder = tmp_path_factory.mktemp("run")
    parts = {f"train-{number}": (90 + 60 * number, 10 + number) for number in range(4)}
    write_reversed(folder, {"valid": (30, 2), "test": (30, 3), **parts})
    return folder


def streamed(text: Path, bpe_dropout: float = 0.0, data: dict[str, Any] | None = None, **settings: Any) -> RunConfig:
    config = config_of(text, bpe_dropout, **{"sample_sentences": 0, **settings})
    files = {side: [f"train-{number}.{side}" for number in range(4)] for side in ("src", "tgt")}
    train = {**files, "streaming": True, "shuffle_buffer": 100, **(data or {})}
    return config.changed(data=config.data.changed(train=train))


RUNS: dict[str, dict[str, Any]] = {
    "steps": {"max_steps": 12},
    "epochs": {"max_steps": None, "max_epochs": 2, "save_every": 3, "accumulate": 2},
    "bpe dropout": {"bpe_dropout": 0.3, "max_steps": 10, "save_every": 1, "batch_tokens": 500, "ema": 0.9},
    "linear": {"max_steps": None, "max_epochs": 2, "schedule": "linear", "data": {"pairs": 200}},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_equals_the_uninterrupted_one(
    name: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = streamed(text, **RUNS[name])
    uninterrupted = train(config, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        original = Run.save

        def save_and_die(self: Run) -> None:
            original(self)
            if self.trainer.progress.step >= 4:
                raise RuntimeError("killed on purpose")

        patch.setattr(Run, "save", save_and_die)
        with pytest.raises(RuntimeError, match="on purpose"):
            train(config, tmp_path / "cut", quiet=True)
    torch.manual_seed(99)
    random.seed(99)
    resumed = train(config, tmp_path / "cut", resume=True, quiet=True)
    assert same(weights(uninterrupted), weights(resumed))
    assert same(weights(uninterrupted, "best"), weights(resumed, "best"))
    assert records(uninterrupted) == records(resumed)
    if "max_epochs" in RUNS[name]:
        ends = [record["epoch"] for record in records(resumed) if record["kind"] == "train"]
        assert ends[-1] == 2.0
        assert len(set(ends)) > 3


def test_nothing_but_a_sample_is_stored_and_the_card_counts(text: Path, tmp_path: Path) -> None:
    config = streamed(text, max_steps=None, max_epochs=1)
    run = train(config, tmp_path / "run", quiet=True)
    assert sorted(path.name for path in (run / "data").iterdir()) == ["sample", "tokenizer"]
    lines = sum(len((text / f"train-{number}.src").read_text().splitlines()) for number in range(4))
    assert f"| training pairs | {lines:,} (0 dropped) |" in (run / "best" / "README.md").read_text()


def test_the_tokenizer_learns_from_the_first_pairs(text: Path, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("eins zwei\tdrei vier\n" * 3 + "fünf sechs\tsieben acht\n" * 30)
    config = streamed(text, max_steps=1).changed(
        data={"dir": str(tmp_path), "train": {"path": "t.tsv", "streaming": True, "tokenizer_pairs": 3}}
    )
    run = Run(config, tmp_path / "run", quiet_reporter())
    assert set(run.prepared.tokenizers.src.vocabulary()) >= {"eins", "vier"}
    assert not set(run.prepared.tokenizers.src.vocabulary()) & {"fünf", "acht"}


def quiet_reporter() -> Any:
    from dragoman.training.report import Reporter

    return Reporter(quiet=True)


def test_held_out_pairs_stay_out_of_training_and_are_the_same_on_each_rank(text: Path, tmp_path: Path) -> None:
    config = streamed(text, max_steps=None, max_epochs=1)
    config = config.changed(data=config.data.changed(valid={"split": 20}))
    run = Run(config, tmp_path / "run", quiet_reporter())
    assert isinstance(run.prepared.corpus, StreamCorpus)
    assert run.prepared.valid is not None
    held = run.prepared.valid
    assert len(held) == 20
    batches = run.trainer.batches
    assert isinstance(batches, StreamBatches)
    own = {(tuple(src), tuple(tgt)) for src, tgt in zip(*(encoded(run, held, side) for side in (0, 1)), strict=True)}
    came = {(src[:-1], tgt[1:]) for share in epoch_of(updates_of(batches)) for _, src, tgt in rows_of(share)}
    assert came
    assert not came & own


def encoded(run: Run, pairs: list[Pair], side: int) -> list[list[int]]:
    tokenizer = (run.prepared.tokenizers.src, run.prepared.tokenizers.tgt)[side]
    return tokenizer.encode_batch([pair[side] for pair in pairs])


def test_a_rate_that_falls_over_epochs_of_unknown_length_is_refused(text: Path, tmp_path: Path) -> None:
    config = streamed(text, max_steps=None, max_epochs=2, schedule="cosine")
    with pytest.raises(ConfigError, match=r"nobody knows how many pairs .* set data\.train\.pairs"):
        train(config, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_an_unknown_length_is_warned_of(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(streamed(text, max_steps=1, valid_every=None), tmp_path / "run", quiet=True)
    assert "validation and checkpoints would come at its end; set train.valid_every." in capsys.readouterr().err


def without_dropout(config: RunConfig) -> RunConfig:
    return config.changed(model=config.model.changed(dropout=0.0))


@pytest.mark.slow
def test_two_processes_train_on_a_stream(text: Path, tmp_path: Path) -> None:
    """Uneven parts do not hang; as one process with twice the accumulation; a checkpoint of two goes on in one."""
    even = without_dropout(streamed(text, max_steps=4, valid_every=2, data={"parts": 2}))
    uneven = streamed(text, max_steps=None, max_epochs=2, save_every=2, data={"parts": 4})
    jobs = [
        {"out": str(tmp_path / "even"), "config": even.model_dump(mode="json")},
        {"out": str(tmp_path / "uneven"), "config": uneven.model_dump(mode="json")},
        {
            "out": str(tmp_path / "cut"),
            "config": uneven.model_dump(mode="json"),
            "acts": {"cut": {"rank": "all", "step": 4}},
        },
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    processes = start_ranks([str(WORKER), str(tmp_path / "jobs.json")])
    try:
        ended = [process.communicate(timeout=200) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], ended[0][1] + ended[1][1]
    said = [
        json.loads((tmp_path / f"{name}.job.rank{rank}.json").read_text())
        for name in ("even", "uneven")
        for rank in (0, 1)
    ]
    assert all("error" not in each for each in said)
    assert said[0]["weights"] == said[1]["weights"]
    twice = streamed(text, max_steps=4, valid_every=2, accumulate=2, data={"parts": 2})
    one = train(without_dropout(twice), tmp_path / "one", quiet=True)
    mine, theirs = weights(one), weights(tmp_path / "even")
    for name in mine:
        torch.testing.assert_close(theirs[name], mine[name], rtol=0.0, atol=SAME_SUMS)
    assert records(tmp_path / "uneven")[-2]["epoch"] == 2.0
    alone = streamed(text, max_steps=None, max_epochs=2, save_every=2, accumulate=2, data={"parts": 4})
    resumed = train(alone, tmp_path / "cut", resume=True, quiet=True)
    assert records(resumed)[-2]["epoch"] == 2.0
