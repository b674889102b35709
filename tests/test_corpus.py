"""From pairs of text to a corpus on disk: what is kept, what is counted, what is held out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.config import DataConfig, TokenizerConfig
from dragoman.errors import BundleError, DataError
from dragoman.text.cleaning import Cleaner, DropCounts
from dragoman.text.corpus import TokenCorpus, write_corpus
from dragoman.text.heldout import hold_out
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

Pair = tuple[str, str]
SENTENCES = st.lists(st.sampled_from("abcdefgh"), max_size=9).map(" ".join)


@cache
def tokenizers() -> TokenizerPair:
    src = Tokenizer.train(TokenizerConfig(kind="wordlevel", min_frequency=1), ["a b c d e f g h"])
    tgt = Tokenizer.train(TokenizerConfig(kind="bpe", vocab_size=260), ["a b c d e f g h"])
    return TokenizerPair(src, tgt)


def tokenizers_again() -> tuple[Tokenizer, Tokenizer]:
    """Copies, to be changed."""
    return copy.copy(tokenizers().src), copy.copy(tokenizers().tgt)


def data(**changes: object) -> DataConfig:
    return DataConfig(train={"src": "x", "tgt": "y"}, **changes)


def rows(corpus: TokenCorpus) -> list[tuple[list[int], list[int]]]:
    pairs = [corpus.pair(index) for index in range(len(corpus))]
    return [(src.tolist(), tgt.tolist()) for src, tgt in pairs]


# Cleaning


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ((1, 1), "kept"),
        ((5, 5), "kept"),
        ((4, 2), "kept"),
        ((2, 4), "kept"),
        ((0, 3), "empty"),
        ((3, 0), "empty"),
        ((0, 0), "empty"),
        ((6, 6), "too_long"),
        ((5, 6), "too_long"),
        ((6, 1), "too_long"),
        ((5, 2), "over_ratio"),
        ((1, 3), "over_ratio"),
    ],
)
def test_one_reason_a_pair(lengths: tuple[int, int], reason: str) -> None:
    cleaner = Cleaner(max_length=5, max_ratio=2.0)
    assert cleaner.keeps(*lengths) is (reason == "kept")
    assert cleaner.counts == DropCounts(**{reason: 1})


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12))))
def test_every_pair_is_counted_once(lengths: list[tuple[int, int]]) -> None:
    cleaner = Cleaner(max_length=8, max_ratio=1.5)
    kept = [pair for pair in lengths if cleaner.keeps(*pair)]
    assert (cleaner.counts.kept, cleaner.counts.total) == (len(kept), len(lengths))
    assert all(min(pair) > 0 and max(pair) <= 8 and max(pair) <= 1.5 * min(pair) for pair in kept)


def test_the_table() -> None:
    lines = DropCounts(kept=1234, empty=0, too_long=3, over_ratio=1).table().splitlines()
    assert [line.split() for line in lines] == [
        ["kept", "1,234", "99.68", "%"],
        ["empty", "0", "0.00", "%"],
        ["too", "long", "3", "0.24", "%"],
        ["over", "the", "length", "ratio", "1", "0.08", "%"],
    ]
    assert len({len(line) for line in lines}) == 1
    assert "0.00 %" in DropCounts().table()


# The corpus on disk


@given(st.lists(st.tuples(SENTENCES, SENTENCES), max_size=20), st.booleans())
@settings(max_examples=25)
def test_what_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], clean: bool) -> None:
    folder = tmp_path_factory.mktemp("corpus") / "x"
    corpus = write_corpus(iter(pairs), tokenizers(), data(max_length=12, max_ratio=1.5), folder, clean)
    encoded = [(tokenizers().src.encode(src), tokenizers().tgt.encode(tgt)) for src, tgt in pairs]
    cleaner = Cleaner(12, 1.5)
    kept = [pair for pair in encoded if cleaner.keeps(*map(len, pair))]
    assert rows(corpus) == (kept if clean else encoded)
    assert corpus.counts == (cleaner.counts if clean else DropCounts(kept=len(pairs)))
    reopened = TokenCorpus.open(folder)
    assert (rows(reopened), reopened.counts) == (rows(corpus), corpus.counts)
    assert corpus.src_lengths.tolist() == [len(src) for src, _ in rows(corpus)]
    assert corpus.tgt_lengths.tolist() == [len(tgt) for _, tgt in rows(corpus)]


def test_white_space_alone_is_no_sentence(tmp_path: Path) -> None:
    """The byte-level side has tokens for it."""
    pairs = [("a", " "), (" \t", "b"), ("a", "\u3000\u2028"), ("a", "b"), ("", "")]
    assert tokenizers().tgt.encode(" ")
    corpus = write_corpus(pairs, tokenizers(), data(), tmp_path / "x")
    assert corpus.counts == DropCounts(kept=1, empty=4)
    assert len(write_corpus(pairs, tokenizers(), data(), tmp_path / "y", clean=False)) == 5


def test_more_pairs_than_are_tokenised_at_once(tmp_path: Path) -> None:
    pairs = [("a b"[: 1 + 2 * (number % 2)], "c") for number in range(10_000)]
    corpus = write_corpus(iter(pairs), tokenizers(), data(), tmp_path / "x")
    assert len(corpus) == 10_000
    chosen = np.asarray([0, 4095, 4096, 9999])
    assert corpus.lengths(chosen)[0].tolist() == [1, 2, 1, 2]
    assert corpus.pair(9999)[0].tolist() == tokenizers().src.encode("a b")


def test_views_copy_nothing(tmp_path: Path) -> None:
    corpus = write_corpus([("a b", "c")], tokenizers(), data(), tmp_path / "x")
    src, _ = corpus.pair(0)
    assert isinstance(src, np.memmap)
    assert not src.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        src[0] = 0


def test_an_error_while_reading_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Pair]:
        yield "a", "b"
        raise DataError("line 2")

    for present in (False, True):
        if present:
            write_corpus([("c", "d")], tokenizers(), data(), tmp_path / "x")
        with pytest.raises(DataError, match="line 2"):
            write_corpus(broken(), tokenizers(), data(), tmp_path / "x")
        assert [path.name for path in tmp_path.iterdir()] == ["x"] * present
    assert rows(TokenCorpus.open(tmp_path / "x"))[0][0] == tokenizers().src.encode("c")


@pytest.mark.parametrize(
    "name", ["corpus.json", "src.bin", "tgt.bin", "src.offsets.bin", "tgt.offsets.bin", "format", "key"]
)
def test_a_damaged_corpus(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "x"
    write_corpus([("a b", "c")] * 3, tokenizers(), data(), folder)
    for damage in ("cut", "gone"):
        if name in ("format", "key"):
            meta = json.loads((folder / "corpus.json").read_text())
            meta = {**meta, "format": 0} if name == "format" else {"format": meta["format"]}
            (folder / "corpus.json").write_text(json.dumps(meta))
        elif damage == "cut":
            (folder / name).write_bytes((folder / name).read_bytes()[:-3])
        else:
            (folder / name).unlink()
        with pytest.raises(BundleError, match="delete it to rebuild") as caught:
            TokenCorpus.open(folder)
        assert str(folder) in str(caught.value)


@pytest.mark.parametrize("place", [0, -1])
def test_offsets_that_do_not_fit(tmp_path: Path, place: int) -> None:
    folder = tmp_path / "x"
    write_corpus([("a b", "c")] * 3, tokenizers(), data(), folder)
    offsets = np.fromfile(folder / "src.offsets.bin", "<i8")
    offsets[place] += 1
    offsets.tofile(folder / "src.offsets.bin")
    with pytest.raises(BundleError, match="is not a complete tokenised corpus"):
        TokenCorpus.open(folder)


def test_large_vocabularies_need_wider_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size, width in ((65_536, 2), (65_537, 4)):
        pair = TokenizerPair(*tokenizers_again())
        monkeypatch.setattr(pair.src, "vocab_size", size)
        monkeypatch.setattr(pair.src, "encode_batch", lambda texts, size=size: [[size - 1, 0] for _ in texts])
        corpus = write_corpus([("a", "b")], pair, data(max_ratio=99.0), tmp_path / str(size))
        assert corpus.pair(0)[0].tolist() == [size - 1, 0]
        assert corpus.pair(0)[0].itemsize == width


# Holding out


def held(pairs: list[Pair], count: int, seed: int = 1) -> tuple[list[Pair], list[Pair]]:
    rest, chosen = hold_out(lambda: iter(pairs), count, seed)
    return list(rest()), chosen


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("rstuvwxyz ")), min_size=1, max_size=40),
    st.integers(1, 10),
    st.integers(0, 5),
)
@example([("a", "b")], 1, 1)
def test_no_sentence_is_on_both_sides(pairs: list[Pair], count: int, seed: int) -> None:
    different = {pair for pair in pairs if pair[1] != " "}
    if len(different) <= count:
        with pytest.raises(DataError, match="hold out fewer"):
            held(pairs, count, seed)
        return
    rest, chosen = held(pairs, count, seed)
    assert len(chosen) == len(set(chosen)) == count
    assert set(chosen) <= different
    for side in (0, 1):
        assert not {pair[side] for pair in rest} & {pair[side] for pair in chosen}
    shared = [pair for pair in pairs if any(pair[side] in {one[side] for one in chosen} for side in (0, 1))]
    assert sorted(rest + shared) == sorted(pairs)


def test_space_case_and_composition_do_not_hide_a_sentence() -> None:
    pairs = [("A b", "xé"), (" a  B ", "y"), ("b", "Xe\u0301\u3000"), ("c", "z"), ("d", "w"), ("D", "v")]
    for seed in range(20):
        rest, chosen = hold_out(lambda: iter(pairs), 1, seed)
        (valid,) = chosen
        assert valid in pairs
        groups = [{pairs[0], pairs[1], pairs[2]}, {pairs[3]}, {pairs[4], pairs[5]}]
        group = next(group for group in groups if valid in group)
        left_out = set(pairs) - set(rest())
        assert valid in left_out <= group
        assert rest.left_out == len(left_out)
        assert group != groups[0] or valid != pairs[0] or left_out == group


def test_the_choice_is_the_seeds_alone() -> None:
    pairs = [(f"s{number}", f"t{number}") for number in range(300)]
    rest, chosen = held(pairs, 30)
    assert (rest, chosen) == held(pairs, 30)
    assert set(held(pairs[::-1] * 2, 30)[1]) == set(chosen)
    assert set(held(pairs, 30, seed=2)[1]) != set(chosen)
    assert [pair for pair in pairs if pair not in chosen] == rest


def test_the_rest_can_be_read_again() -> None:
    rest, _ = hold_out(lambda: iter([("a", "x"), ("b", "y"), ("c", "z")]), 1, 1)
    assert list(rest()) == list(rest())
