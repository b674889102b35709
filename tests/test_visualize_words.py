"""Tokens to words: real tokenizers over odd texts, hand-made tokens, and the laws of merging."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundles import LINES, SRC_TEXT, make_tokenizers
from dragoman.visualize.words import Words, group_words, merge, word_places
from tolerances import FLOAT64

SPECIAL = frozenset({"<s>", "</s>", "<pad>"})
TOKENIZERS = {kind: make_tokenizers(kind=kind).src for kind in ("bpe", "unigram", "wordlevel")}
ODD = [
    "Ärger über ein Ü: 北京 🙂",
    "  two  spaces\tand a tab\nand\u00a0others ",
    "a ▁ b▁c ▁▁",
    "</s> <s>x </s>",
    "e\u0301clair ﬁne ½ Straße İstanbul ΣΑΣ",
    "🙂🙂🙂 🙂",
    "key",
    "北 京",
]


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("text", [*LINES, *ODD])
def test_every_word_has_its_tokens(kind: str, text: str) -> None:
    tokens = [*TOKENIZERS[kind].tokens(TOKENIZERS[kind].encode(text)), "</s>"]
    places = word_places(tokens, text, SPECIAL)
    numbers = [place for place in places if place is not None]
    assert places[-1] is None
    assert numbers == sorted(numbers)
    # A word of nothing but ▁, which also shows a space, cannot be seen.
    visible = {k for k, word in enumerate(text.split()) if word.strip("▁")}
    assert set(numbers) == visible
    # A token that shows letters shows those of its word.
    for token, place in zip(tokens, places, strict=True):
        letters = token.strip("▁").strip()
        if place is not None and letters.isascii() and letters not in ("", "<unk>"):
            assert letters in text.split()[place]


@settings(max_examples=150)
@given(text=st.text(st.sampled_from("abÄß北🙂 \t.-"), max_size=25))
def test_the_words_of_any_text_are_found(text: str) -> None:
    for kind in ("bpe", "unigram"):
        tokens = TOKENIZERS[kind].tokens(TOKENIZERS[kind].encode(text))
        places = word_places(tokens, text, SPECIAL)
        # A word begins at a token that begins with a space: the tokenizer never joins two.
        expected, word, spaced = [], -1, True
        for token in tokens:
            inside = "".join(letter for letter in token if letter != "▁" and not letter.isspace())
            spaced = spaced or token[0] == "▁" or token[0].isspace()
            if inside:
                word += spaced
                spaced = token[-1] == "▁" or token[-1].isspace()
            expected.append(word if inside else None)
        assert places == expected


def test_unknown_words_keep_their_places() -> None:
    text = "Nobody xyzzy, plugh found the qwerty!"
    tokens = ["Nobody", "<unk>", ",", "<unk>", "found", "the", "<unk>", "<unk>", "</s>"]
    assert word_places(tokens, text, SPECIAL) == [0, 1, 1, 2, 3, 4, 5, 5, None]
    assert group_words(tokens, text, SPECIAL) == Words(
        ["Nobody", "xyzzy,", "plugh", "found", "the", "qwerty!", "</s>"],
        [[0], [1, 2], [3], [4], [5], [6, 7], [8]],
        [0, 1, 2, 3, 4, 5, None],
    )


def test_case_and_unicode_form_do_not_matter() -> None:
    assert word_places(["▁straße", "▁e\u0301", "cole", "▁1⁄2"], "STRASSE École ½", SPECIAL) == [0, 1, 1, 2]


def test_spaces_go_with_the_word_after_them() -> None:
    words = group_words(["<s>", "▁", "▁a", "▁", "b", "▁", "</s>"], "a b ", SPECIAL)
    assert words.groups == [[0], [1, 2], [3, 4], [5], [6]]
    assert words.labels == ["<s>", "a", "b", "▁", "</s>"]
    assert words.places == [None, 0, 1, None, None]


def test_a_space_may_stand_at_a_token_s_end() -> None:
    assert word_places(["a▁", "�", "�\t", "�", "�▁", "x"], "a 北 京 x", SPECIAL) == [0, 1, 1, 2, 2, 3]


def test_more_tokens_than_text() -> None:
    assert word_places(["▁a", "▁b", "▁c"], "a", SPECIAL) == [0, 0, 0]
    assert word_places(["▁a"], "", SPECIAL) == [None]
    assert word_places([], "a", SPECIAL) == []
    assert group_words([], "", SPECIAL) == Words([], [], [])


@given(data=st.data())
def test_merged_rows_add_up_as_before(data: st.DataObject) -> None:
    def words(count: int) -> Words:
        cuts = sorted(data.draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
        groups = [list(range(a, b)) for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
        return Words([str(group) for group in groups], groups, [None] * len(groups))

    queries, keys = words(data.draw(st.integers(1, 7))), words(data.draw(st.integers(1, 7)))
    shape = (2, 3, queries.groups[-1][-1] + 1, keys.groups[-1][-1] + 1)
    weights = np.random.default_rng(0).dirichlet(np.ones(shape[-1]), size=shape[:-1])
    merged = merge(weights, queries, keys)
    assert merged.shape == (2, 3, len(queries.groups), len(keys.groups))
    np.testing.assert_allclose(merged.sum(-1), 1.0, atol=FLOAT64)
    for q, own in enumerate(queries.groups):
        for k, some in enumerate(keys.groups):
            expected = weights[:, :, own][:, :, :, some].sum(-1).mean(-1)
            np.testing.assert_allclose(merged[:, :, q, k], expected, atol=FLOAT64)


def test_the_text_of_the_fixtures_is_grouped_into_its_own_words() -> None:
    for text in SRC_TEXT:
        for tokenizer in TOKENIZERS.values():
            assert group_words(tokenizer.tokens(tokenizer.encode(text)), text, SPECIAL).labels == text.split()
