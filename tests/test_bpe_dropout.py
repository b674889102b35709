"""BPE-dropout: without it the tokenizer's own ids, with it the distribution of its definition, sentence by sentence."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.config import DataConfig, TokenizerConfig
from dragoman.errors import BundleError, ConfigError
from dragoman.text import bpe_dropout, recut
from dragoman.text.bpe_dropout import BpeDropout, hashed, ragged, uniform
from dragoman.text.corpus import TokenCorpus, write_corpus
from dragoman.text.json_tokenizer import ByteLevelTokenizer
from dragoman.text.recut import RecutCorpus
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

TEXTS = [
    "The old man reads a book, and the other man reads another.",
    "Die Tür ist grün und größer als die alte Tür; Straßenbahnhaltestelle",
    "猫は本を読む。 Кошка читает книгу. 😀😀",
    "aaaaaaaa abababababab    1234 1234",
] * 3
ANY_TEXT = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            [*"ab ", "aaa", "abab", "Tür", "book", " man", "猫は", "</s>", "\n", "  ", "x" * 40, "ab" * 30]
        ),
    ),
    max_size=12,
).map("".join)


@cache
def tokenizer(size: int = 400) -> ByteLevelTokenizer:
    trained = Tokenizer.train(TokenizerConfig(kind="bpe", vocab_size=size), TEXTS)
    assert isinstance(trained, ByteLevelTokenizer)
    return trained


def cut(texts: Sequence[str], rate: float, keys: Any = None, longest: int = 10**9) -> list[list[int]]:
    """Sentences as the dropout cuts them."""
    different = list(dict.fromkeys(texts))
    rows_of = dict(zip(different, tokenizer().encode_words(different), strict=True))
    rows = [rows_of[text] for text in texts]
    ids = np.asarray([index for row, _ in rows for index in row], np.int64)
    begins = np.asarray([begin for _, row in rows for begin in row], np.bool_)
    lengths = np.asarray([len(row) for row, _ in rows], np.int64)
    keys = hashed(np.zeros(1, np.uint64), np.arange(len(texts))) if keys is None else keys
    new, counts = BpeDropout.of(tokenizer(), rate).cut(ids, begins, lengths, keys, longest)
    assert counts.sum() == len(new)
    return [row.tolist() for row in np.split(new, np.cumsum(counts)[:-1])] if len(texts) else []


def bytes_of(text: str) -> list[list[int]]:
    """The ids of the bytes of each word."""
    spelling = tokenizer().spelling()
    ((ids, begins),) = tokenizer().encode_words([text])
    words: list[list[int]] = []
    for index, begin in zip(ids, begins, strict=True):
        if begin:
            words.append([])
        words[-1] += spelling[index]
    return words


# The edges: nothing left out, everything left out


@given(st.lists(ANY_TEXT, max_size=4))
@example(["aaa", "aaaa aaaaa", "abababa"])
@example([""])
@example(["a" * 400, "猫は本を読む" * 20])
@settings(max_examples=150)
def test_without_dropout_the_rounds_give_the_tokenizers_own_ids(texts: list[str]) -> None:
    """The merging itself, though with rate 0 no word would ever be given to it."""
    words = [word for text in texts for word in bytes_of(text)]
    sizes = np.asarray([len(word) for word in words], np.int64)
    symbols = np.asarray([byte for word in words for byte in word], np.int64)
    ids, counts = BpeDropout.of(tokenizer(), 0.0).segment(symbols, sizes, np.zeros(len(words), np.uint64))
    assert ids.tolist() == [index for text in texts for index in tokenizer().encode(text)]
    assert (len(counts), counts.sum()) == (len(words), len(ids))
    assert cut(texts, 0.0) == [tokenizer().encode(text) for text in texts]


@given(st.lists(ANY_TEXT, min_size=1, max_size=4))
@settings(max_examples=30)
def test_with_all_left_out_there_are_bytes(texts: list[str]) -> None:
    everything = 1 - 2.0**-53
    assert cut(texts, everything) == [[byte for word in bytes_of(text) for byte in word] for text in texts]


@given(st.lists(ANY_TEXT, min_size=1, max_size=4), st.floats(0.0, 0.99))
@settings(max_examples=60)
def test_the_text_stays_the_same(texts: list[str], rate: float) -> None:
    for text, row in zip(texts, cut(texts, rate), strict=True):
        assert tokenizer().decode(row) == tokenizer().normalize(text)


def test_no_token_reaches_over_a_word() -> None:
    text = "the man reads, the man reads; Tür 1234"
    ends = set(np.cumsum([len(word) for word in bytes_of(text)]).tolist())
    spelling = tokenizer().spelling()
    for row in cut([text] * 50, 0.3):
        assert ends <= set(np.cumsum([len(spelling[index]) for index in row]).tolist())


def test_a_long_word_is_cut_between_its_plain_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """80,000 bytes without a space take rounds for the longest piece alone; shorter words are cut as ever."""
    draw = random.Random(1)
    long = "".join(draw.choices("abcdefgäé猫", k=60_000))
    rounds = 0
    original = bpe_dropout._Chains.merge

    def counted(*arguments: Any) -> None:
        nonlocal rounds
        rounds += 1
        original(*arguments)

    monkeypatch.setattr(bpe_dropout._Chains, "merge", counted)
    (row,) = cut([long], 0.2)
    assert rounds <= bpe_dropout._LONGEST_WORD + 8
    assert row != tokenizer().encode(long)
    assert tokenizer().decode(row) == tokenizer().normalize(long)
    assert cut([long], 0.0) == [tokenizer().encode(long)]
    spelling = tokenizer().spelling()
    plain, new = (np.cumsum([len(spelling[at]) for at in ids]).tolist() for ids in (tokenizer().encode(long), row))
    assert len(ends_of_pieces(plain)) > 50
    assert set(ends_of_pieces(plain)) <= set(new)
    # Below the limit the same tokens whatever the limit is.
    short = ["a" * 1000, "猫は本を読む" * 50, "the man reads"]
    before = cut(short, 0.3)
    monkeypatch.setattr(bpe_dropout, "_LONGEST_WORD", 10**9)
    assert cut(short, 0.3) == before
    monkeypatch.setattr(bpe_dropout, "_LONGEST_WORD", 3)
    assert cut(short, 0.3) != before


def ends_of_pieces(plain: list[int]) -> list[int]:
    """Where the pieces of a word end that is cut before the first plain token of each 1,024 bytes."""
    begins = [0, *plain[:-1]]
    return [begin for before, begin in itertools.pairwise(begins) if before // 1024 < begin // 1024]


# The distribution


def exact(word: Sequence[int], rate: float) -> dict[tuple[int, ...], float]:
    """The definition, written out: every set of merges that could be left out in a round, with its probability."""
    ranks = {(left, right): (rank, merged) for rank, (left, right, merged) in enumerate(tokenizer().merges())}

    @cache
    def outcomes(symbols: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        found = [(*ranks[pair], place) for place, pair in enumerate(itertools.pairwise(symbols)) if pair in ranks]
        total: Counter[tuple[int, ...]] = Counter()
        for kept in itertools.product((True, False), repeat=len(found)):
            probability = np.prod([1 - rate if keep else rate for keep in kept])
            left = [one for one, keep in zip(found, kept, strict=True) if keep]
            if not left:
                total[symbols] += probability
                continue
            _, merged, place = min(left, key=lambda one: (one[0], one[2]))
            for outcome, share in outcomes((*symbols[:place], merged, *symbols[place + 2 :])).items():
                total[outcome] += probability * share
        return total

    return outcomes(tuple(word))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("text", ["aaaaaa", "abababa", "book", "Tür", "reads"])
def test_the_distribution_is_the_definitions(text: str, rate: float) -> None:
    """Each way to cut a word as often as it should be, within five standard deviations."""
    (word,) = bytes_of(text)
    expected = exact(word, rate)
    assert sum(expected.values()) == pytest.approx(1.0)
    assert len(expected) > 2
    number = 40_000
    seen = Counter(map(tuple, cut([text] * number, rate)))
    assert seen.keys() <= expected.keys()
    for outcome, probability in expected.items():
        deviation = (probability * (1 - probability) / number) ** 0.5
        assert abs(seen[outcome] / number - probability) <= 5 * deviation + 1 / number, outcome


def test_words_of_a_sentence_are_cut_independently() -> None:
    number, rate = 40_000, 0.4
    rows = Counter(map(tuple, cut(["book book"] * number, rate)))
    single = exact(bytes_of("book")[0], rate)
    # Each " book" begins with the space, so that it is the same word twice.
    for (first, p), (second, q) in itertools.product(single.items(), repeat=2):
        deviation = (p * q * (1 - p * q) / number) ** 0.5
        assert abs(rows[(*first, *second)] / number - p * q) <= 5 * deviation + 1 / number


def test_the_draws_are_uniform_and_of_one_key_each() -> None:
    keys = hashed(np.asarray([7], np.uint64), np.arange(20_000))
    assert len(set(keys.tolist())) == len(keys)
    for number in (0, 1, 900):
        draws = uniform(keys, number)
        assert (draws >= 0).all()
        assert (draws < 1).all()
        assert np.abs(np.sort(draws) - np.linspace(0, 1, len(draws))).max() < 0.015
    assert abs(np.corrcoef(uniform(keys, 0), uniform(keys, 1))[0, 1]) < 0.03
    # The first values of the reference implementation with seed 0.
    zero = np.zeros(1, np.uint64)
    assert [int(hashed(zero, number)[0]) for number in range(2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


# A sentence depends on nothing but its key


@given(st.lists(ANY_TEXT, min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_company_does_not_matter(texts: list[str], random: Any) -> None:
    keys = hashed(np.asarray([3], np.uint64), np.arange(len(texts)))
    together = cut(texts, 0.3, keys)
    order = list(range(len(texts)))
    random.shuffle(order)
    assert cut([texts[index] for index in order], 0.3, keys[order]) == [together[index] for index in order]
    assert [cut([text], 0.3, keys[[index]])[0] for index, text in enumerate(texts)] == together


def test_a_sentence_that_would_be_too_long_keeps_its_plain_tokens() -> None:
    texts = ["the man reads a book", "猫は本を読む", "aaaaaaaa", "x y", ""] * 30
    plain, free = [tokenizer().encode(text) for text in texts], cut(texts, 0.5)
    for longest in (5, 9, 12):
        wanted = [row if len(row) <= longest else own for row, own in zip(free, plain, strict=True)]
        assert cut(texts, 0.5, longest=longest) == wanted
    assert plain != wanted != free


def test_ragged() -> None:
    assert ragged(np.asarray([5, 0, 9]), np.asarray([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ragged(np.asarray([], np.int64), np.asarray([], np.int64)).tolist() == []


# A corpus cut anew


SENTENCES = [text for text in " ".join(TEXTS).split(".") if text.strip()] * 9
PAIRS = [(text, " ".join(text.split()[::-1])) for text in SENTENCES]


def stored(folder: Path, words: bool = True) -> tuple[TokenCorpus, TokenizerPair]:
    tokenizers = TokenizerPair(tokenizer(), tokenizer(330))
    return write_corpus(PAIRS, tokenizers, DataConfig(train={"src": "x", "tgt": "y"}), folder, words=words), tokenizers


def rows(corpus: TokenCorpus, epoch: int, order: Sequence[int] | None = None) -> dict[int, list[list[int]]]:
    indices = np.asarray(range(len(corpus)) if order is None else order, np.int64)
    window = corpus.window(indices, epoch)
    found = [[side.tolist() for side in window.pair(place)] for place in range(len(indices))]
    assert [list(map(len, pair)) for pair in found] == np.stack(window.lengths(), 1).tolist()
    return dict(zip(indices.tolist(), found, strict=True))


def test_a_corpus_is_cut_by_seed_epoch_side_and_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, tokenizers = stored(tmp_path / "x")
    corpus = RecutCorpus(TokenCorpus.open(tmp_path / "x"), tokenizers, 0.2, 1, 256)
    first = rows(corpus, 0)
    assert first == rows(RecutCorpus(plain, tokenizers, 0.2, 1, 256), 0)
    monkeypatch.setattr(recut, "_CHUNK", 7)
    order = np.random.default_rng(0).permutation(len(corpus)).tolist()
    assert first == rows(corpus, 0, order)
    assert first[order[4]] == rows(corpus, 0, order[4:5])[order[4]]
    for other in (rows(corpus, 1), rows(RecutCorpus(plain, tokenizers, 0.2, 2, 256), 0), rows(plain, 0)):
        for side in (0, 1):
            differs = [first[index][side] != other[index][side] for index in first]
            assert sum(differs) > len(first) / 2
    for index, pair in first.items():
        for side, own, text in zip((tokenizers.src, tokenizers.tgt), pair, PAIRS[index], strict=True):
            assert side.decode(own) == side.normalize(text)
        assert [side.tolist() for side in corpus.pair(index)] == [side.tolist() for side in plain.pair(index)]
    assert rows(plain, 0) == rows(plain, 5)


def test_the_sides_of_a_pair_are_cut_apart(tmp_path: Path) -> None:
    both = TokenizerPair(tokenizer(), tokenizer())
    data = DataConfig(train={"src": "x", "tgt": "y"})
    plain = write_corpus([("the man reads a book",) * 2] * 200, both, data, tmp_path / "x", words=True)
    pairs = rows(RecutCorpus(plain, both, 0.3, 1, 256), 0).values()
    assert len({str(src) for src, _ in pairs}) > 50
    assert sum(src == tgt for src, tgt in pairs) < 20


def test_a_corpus_without_words_is_refused(tmp_path: Path) -> None:
    plain, tokenizers = stored(tmp_path / "x", words=False)
    assert not list((tmp_path / "x").glob("*.words.bin"))
    with pytest.raises(BundleError, match="does not say where words begin; delete it"):
        RecutCorpus(plain, tokenizers, 0.1, 1, 256)
    stored(tmp_path / "x")
    (tmp_path / "x" / "tgt.words.bin").write_bytes(b"\1")
    with pytest.raises(BundleError, match="not a complete tokenised corpus"):
        TokenCorpus.open(tmp_path / "x")


# What it does not work with


@pytest.mark.parametrize("kind", ["unigram", "wordlevel", "rules", "sentencepiece"])
def test_other_kinds_have_no_merges(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"kind bpe alone, and this tokenizer is of kind {kind}; set .*: 0"):
        Tokenizer.train(TokenizerConfig(kind=kind, bpe_dropout=0.1), TEXTS)


@pytest.mark.parametrize("kind", ["unigram", "wordlevel"])
def test_nor_have_tokenizers_that_were_loaded(kind: str) -> None:
    loaded = Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=330), TEXTS)
    with pytest.raises(ConfigError, match=f"of kind {kind}"):
        BpeDropout.of(loaded, 0.1)


def test_spelling_and_merges() -> None:
    spelling = tokenizer().spelling()
    assert spelling[:4] == [[]] * 4
    assert sorted(spelling[4:260]) == [[index] for index in range(4, 260)]
    for left, right, merged in tokenizer().merges():
        assert spelling[merged] == spelling[left] + spelling[right]
    assert len(tokenizer().merges()) == tokenizer().vocab_size - 260
