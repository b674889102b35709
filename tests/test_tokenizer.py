"""Tokenizers: nothing is lost, nothing is made up, and damaged files are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import decoders, pre_tokenizers

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError, DataError
from dragoman.text import json_tokenizer
from dragoman.text.readers import read_lines
from dragoman.text.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair, open_bytes, train_tokenizers

TEXTS = [
    "The old man reads a book.",
    "the old woman reads the old newspaper, doesn't she?",
    "Die Tür ist grün und größer als die alte Tür.",
    "Straße, ÄPFEL, Öl: 3,14 € für <s>typed</s> text with <unk> and <pad>",
    "猫は本を読む。 Кошка читает книгу.",
] * 3
SUBWORD = [(kind, lowercase) for kind in ("bpe", "unigram") for lowercase in (False, True)]
# Everything UTF-8 can hold, with more of what tokenizers use as signs of their own.
ANY_TEXT = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(["▁", "Ġ", "Ċ", "##", "@@", "</w>", " ", "  ", *SPECIAL_TOKENS, "[UNK]", "<0x41>", "\n", "\0"]),
    ),
    max_size=12,
).map("".join)


@cache
def trained(kind: str, lowercase: bool = False) -> Tokenizer:
    config = TokenizerConfig(kind=kind, lowercase=lowercase, vocab_size=330)
    return Tokenizer.train(config, TEXTS)


@pytest.mark.parametrize(("kind", "lowercase"), SUBWORD)
@given(text=ANY_TEXT)
@example("")
@example(" ")
@example("   leading and trailing   ")
@example("▁</s><unk>Ġ")
@example("İstanbul ǅ ﬁ")
@example("e\u0301 \u0301 \u1100\u1161")
@example("\ufeff\u200b\u2028\x85\r\n\t\0")
@example("😀👩\u200d👩\u200d👧")
def test_round_trip(kind: str, lowercase: bool, text: str) -> None:
    tokenizer = trained(kind, lowercase)
    ids = tokenizer.encode(text)
    normal = tokenizer.normalize(text)
    assert tokenizer.decode(ids) == normal
    assert all(len(SPECIAL_TOKENS) <= index < tokenizer.vocab_size for index in ids)
    assert tokenizer.encode_batch([text, "x"]) == [ids, tokenizer.encode("x")]
    assert tokenizer.decode_batch([ids, []]) == [normal, ""]
    assert tokenizer.encode(normal) == ids
    assert len(tokenizer.tokens(ids)) == len(ids)


@pytest.mark.parametrize(("kind", "lowercase"), SUBWORD)
@given(text=ANY_TEXT)
def test_normalisation(kind: str, lowercase: bool, text: str) -> None:
    import unicodedata

    normal = unicodedata.normalize("NFC", text)
    tokenizer = trained(kind, lowercase)
    if not lowercase:
        # The two libraries may know different versions of Unicode, so only what both have changed is compared.
        assert unicodedata.normalize("NFC", tokenizer.normalize(text)) == normal
    assert tokenizer.normalize(tokenizer.normalize(text)) == tokenizer.normalize(text)
    assert tokenizer.keeps_case is not lowercase
    if text.isascii():
        assert tokenizer.normalize(text) == (text.lower() if lowercase else text)


@given(text=ANY_TEXT)
def test_text_never_gives_a_special_id(text: str) -> None:
    wordlevel = trained("wordlevel")
    assert not {1, 2, 3} & set(wordlevel.encode(text))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel"])
@pytest.mark.parametrize("special", SPECIAL_TOKENS)
def test_special_tokens_that_training_text_spells(kind: str, special: str) -> None:
    """However often a text spells one, it stays text."""
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=400), [f"a {special} {special}b{special}"] * 50)
    assert [tokenizer.tokens([index]) for index in range(4)] == [[name] for name in SPECIAL_TOKENS]
    for text in (special, f"{special} a", f"b{special}{special}"):
        # Word level knows no word for "><".
        assert not {0, 1, 2, 3} & set(tokenizer.encode(text)) - ({0} if kind == "wordlevel" else set())
        if kind != "wordlevel":
            assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(("kind", "lowercase"), SUBWORD)
def test_special_ids_are_left_out_of_the_text(kind: str, lowercase: bool) -> None:
    tokenizer = trained(kind, lowercase)
    ids = tokenizer.encode("the old book")
    assert tokenizer.decode([2, *ids[:1], 0, *ids[1:], 3, 1, 1]) == "the old book"
    assert tokenizer.decode([2, 3]) == ""


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(ids=st.lists(st.integers(0, 329), max_size=20))
def test_any_ids_give_text(kind: str, ids: list[int]) -> None:
    """A model may produce ids that no text gives, half characters among them."""
    tokenizer = trained(kind)
    ids = [index for index in ids if index < tokenizer.vocab_size]
    tokenizer.decode(ids).encode()
    assert len(tokenizer.tokens(ids)) == len(ids)


def test_every_byte_has_its_character() -> None:
    """What the library spells bytes with; each decodes to the byte, or is a part of what does."""
    assert set(json_tokenizer._BYTES) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(json_tokenizer._BYTES.values()) == list(range(256))
    shown = {byte: char for char, byte in json_tokenizer._BYTES.items()}
    for char in map(chr, [*range(0x300), 0x732B, 0xFFFD, 0x1F600]):
        assert decoders.ByteLevel().decode(["".join(shown[byte] for byte in char.encode())]) == char


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        (b"", 0), (b"a", 0), ("猫".encode(), 0), (b"\xe7", 1), (b"\xe7\x8c", 2), (b"\xf0\x9f\x98", 3), (b"a\xc3", 1),
        (b"\x8c\xab\xc3", 1), (b"\x80", 0), (b"\xff", 0), (b"\xc0", 0), (b"\xed", 1), (b"\xed\x9f", 2),
        (b"\xed\xa0", 0), (b"\xf4\x90", 0), (b"\xe7a", 0), ("�".encode(), 0), (b"\xe7\xe7", 1),
    ],
)  # fmt: skip
def test_bytes_that_begin_a_character(text: bytes, open_: int) -> None:
    assert open_bytes(text) == open_


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_character_that_is_not_whole_is_left_out_at_the_end(kind: str) -> None:
    tokenizer = trained(kind)
    text = "Tür 猫 😀! x�"
    ids = tokenizer.encode(text)
    every = [tokenizer.decode_whole(ids[:count]) for count in range(len(ids) + 1)]
    assert all(text.startswith(one) for one in every)
    assert every == sorted(every, key=len)
    assert (every[-1], every[0]) == (text, "")
    assert not any("�" in one for one in every[:-1])
    assert any("�" in tokenizer.decode(ids[:count]) for count in range(len(ids)))
    # Bytes that nothing can complete stay as decoding shows them.
    half = tokenizer.encode("猫")[:-1]
    for odd in ([*half, *tokenizer.encode("x")], [half[-1]], [*half, *half[:1], 3]):
        assert tokenizer.decode_whole(odd).rstrip("�") == tokenizer.decode(odd).rstrip("�")
    assert tokenizer.decode_whole([half[-1]]) == "�"
    assert "�" in tokenizer.decode_whole([*half, *tokenizer.encode("x")])


@given(ids=st.lists(st.integers(0, 329), max_size=8))
@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel"])
def test_only_what_may_still_change_is_left_out(kind: str, ids: list[int]) -> None:
    """Against trying: where a byte more makes another character of the last �, it is left out."""
    tokenizer = trained(kind)
    ids = [index for index in ids if index < tokenizer.vocab_size]
    text = tokenizer.decode(ids)
    goes_on = False
    if kind != "wordlevel" and text.endswith("�"):
        at = len(text) - 1
        later = [tokenizer.encode(chr(byte))[-1:] for byte in (0x80, 0x90, 0x9F, 0xA1, 0xBF)]
        more = [first + rest for first in later for rest in ([], later[0], later[0] * 2)]
        goes_on = any(
            tokenizer.decode(ids + some)[at:] not in ("�", "") and "�" not in tokenizer.decode(ids + some)[at:]
            for some in more
        )
    assert tokenizer.decode_whole(ids) == (text[:-1] if goes_on else text)


def test_pieces_are_readable() -> None:
    tokenizer = trained("bpe")
    pieces = tokenizer.tokens([2, *tokenizer.encode("the Tür 猫"), 3])
    assert (pieces[0], pieces[-1]) == ("<s>", "</s>")
    assert pieces[1] == "▁the"
    assert "".join(pieces[1:5]).startswith("▁the▁T")
    unseen = tokenizer.tokens(tokenizer.encode("😀"))
    assert "�" in "".join(unseen)


def test_a_word_is_the_same_token_everywhere() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.encode("the the") == tokenizer.encode("the") * 2


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel"])
def test_training_is_deterministic(kind: str, tmp_path: Path) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=330)
    files = []
    for name in ("a", "b"):
        Tokenizer.train(config, iter(TEXTS)).save(tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel"])
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    tokenizer = trained(kind, True)
    tokenizer.save(tmp_path / "x.json")
    loaded = Tokenizer.load(tmp_path / "x.json")
    assert (loaded.kind, loaded.vocab_size) == (kind, tokenizer.vocab_size)
    for text in (*TEXTS, " odd ▁</s>\0\u2028 "):
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))
    loaded.save(tmp_path / "y.json")
    assert (tmp_path / "x.json").read_bytes() == (tmp_path / "y.json").read_bytes()


def test_word_level() -> None:
    texts = ["b a, a b c", "a b d", "c. A"]
    tokenizer = Tokenizer.train(TokenizerConfig(kind="wordlevel"), texts)
    assert tokenizer.tokens(range(tokenizer.vocab_size)) == [*SPECIAL_TOKENS, "a", "b", "c"]
    assert tokenizer.encode("a, b c") == [4, 0, 5, 6]
    assert tokenizer.decode([2, 4, 0, 5, 3]) == "a <unk> b"
    assert Tokenizer.train(TokenizerConfig(kind="wordlevel", vocab_size=5), texts).vocab_size == 5
    assert Tokenizer.train(TokenizerConfig(kind="wordlevel", min_frequency=1), texts).vocab_size == 11


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [1, 259])
def test_a_vocabulary_that_is_too_small(kind: str, size: int) -> None:
    with pytest.raises(ConfigError, match=rf"^tokenizer.vocab_size {size} is too small: .* give at least 26[01]\.$"):
        Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=size), TEXTS)


def test_a_word_vocabulary_that_is_too_small() -> None:
    with pytest.raises(ConfigError, match=r"vocab_size 4 is too small: wordlevel holds a word .* at least 5\."):
        Tokenizer.train(TokenizerConfig(kind="wordlevel", vocab_size=4), TEXTS)
    assert Tokenizer.train(TokenizerConfig(kind="wordlevel", vocab_size=5), TEXTS).vocab_size == 5


@pytest.mark.parametrize(("kind", "size"), [("bpe", 260), ("unigram", 261)])
def test_the_smallest_vocabulary(kind: str, size: int) -> None:
    with pytest.raises(ConfigError, match=f"give at least {size}"):
        Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=size - 1), TEXTS)
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=size), TEXTS)
    assert tokenizer.vocab_size == size
    assert tokenizer.decode(tokenizer.encode("Tür 猫")) == "Tür 猫"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel"])
def test_the_size_asked_for_is_never_passed(kind: str) -> None:
    for size in (270, 300, 330):
        assert Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=size), TEXTS).vocab_size <= size


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel"])
@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_no_training_text(kind: str, texts: list[str]) -> None:
    with pytest.raises(DataError, match="holds no words"):
        Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=330), texts)
    assert Tokenizer.train(TokenizerConfig(kind=kind, vocab_size=330), [*texts, "x x"]).encode("x")


def damaged(text: str) -> Iterator[tuple[str, bytes]]:
    whole = json.loads(text)
    yield "not a tokenizer file", b""
    yield "not a tokenizer file", text.encode()[: len(text) // 2]
    yield "not UTF-8", b"\xff" + text.encode()
    yield "not a tokenizer file", b"[]"
    yield "not a tokenizer file", b"{}"
    yield "not a tokenizer file", json.dumps({**whole, "model": {"type": "Nothing"}}).encode()
    added = {"id": 1, "content": "<pad>", "special": True, "normalized": False, "single_word": False}
    yield "added tokens", json.dumps({**whole, "added_tokens": [{**added, "lstrip": False, "rstrip": False}]}).encode()
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 1, "pad_type_id": 0, "pad_token": "<pad>"}
    truncation = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    yield "cuts or pads", json.dumps({**whole, "padding": padding}).encode()
    yield "cuts or pads", json.dumps({**whole, "truncation": truncation}).encode()
    lossy = [("pre_tokenizer", {"type": "Whitespace"}), ("decoder", None), ("decoder", {"type": "Fuse"})]
    for key, value in lossy:
        yield "does not give back the text", json.dumps({**whole, key: value}).encode()
    # Merges left out at random, and words that are tokens as a whole though no merges make them.
    for name, value in (("dropout", 0.1), ("ignore_merges", True)):
        yield (
            f"applied in another way \\({name}\\)",
            json.dumps({**whole, "model": {**whole["model"], name: value}}).encode(),
        )
    pieces = whole["model"]["vocab"]
    for change, message in (
        (lambda index: index + (index > 100), "gaps"),
        (lambda index: index, "some of the 256 bytes"),
    ):
        vocabulary = {token: change(index) for token, index in pieces.items() if message == "gaps" or index < 250}
        model = {**whole["model"], "vocab": vocabulary, "merges": []}
        yield message, json.dumps({**whole, "model": model}).encode()
    vocabulary = {token: index + 1 for token, index in whole["model"]["vocab"].items()}
    yield "the special tokens", json.dumps({**whole, "model": {**whole["model"], "vocab": vocabulary}}).encode()


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained("bpe").save(path)
    for message, data in damaged(path.read_text("utf-8")):
        path.write_bytes(data)
        with pytest.raises(BundleError, match=message) as caught:
            Tokenizer.load(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="No such file"):
        Tokenizer.load(tmp_path / "nope")
    with pytest.raises(BundleError, match="Is a directory"):
        Tokenizer.load(tmp_path)
    with pytest.raises(BundleError, match=r"holds no tokenizer\.json and no src\.tokenizer\.json"):
        TokenizerPair.load(tmp_path)
    trained("bpe").save(tmp_path / "src.tokenizer.json")
    with pytest.raises(BundleError, match=r"tgt\.tokenizer\.json: No such file"):
        TokenizerPair.load(tmp_path)


# Pairs

BITEXT = [("a dog", "ein Hund"), ("a cat", "eine Katze")] * 3


def read() -> Iterator[tuple[str, str]]:
    return iter(BITEXT)


def never() -> Iterator[tuple[str, str]]:
    raise AssertionError("the training text was read")


@pytest.mark.parametrize("joint", [True, False])
def test_a_pair(tmp_path: Path, joint: bool) -> None:
    pair = train_tokenizers(TokenizerConfig(kind="wordlevel", joint=joint), read)
    assert pair.joint is joint
    words = [set(side.tokens(range(4, side.vocab_size))) for side in (pair.src, pair.tgt)]
    english, german = {"a", "dog", "cat"}, {"ein", "eine", "Hund", "Katze"}
    assert words == ([english | german] * 2 if joint else [english, german])
    pair.save(tmp_path)
    names = {"tokenizer.json"} if joint else {"src.tokenizer.json", "tgt.tokenizer.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint is joint
    assert loaded.src.encode("a dog") == pair.src.encode("a dog")
    assert loaded.tgt.encode("ein Hund") == pair.tgt.encode("ein Hund")


@pytest.mark.parametrize(("name", "joint"), [("sub/t.json", True), ("sub/t", True), ("sub/t", False)])
def test_a_path_is_written_once_and_then_loaded(tmp_path: Path, name: str, joint: bool) -> None:
    config = TokenizerConfig(kind="wordlevel", joint=joint, path=name)
    trained = train_tokenizers(config, read, tmp_path)
    assert (tmp_path / name).exists()
    loaded = train_tokenizers(config, never, tmp_path)
    assert loaded.joint is joint
    assert loaded.tgt.encode("ein Hund") == trained.tgt.encode("ein Hund")


@pytest.mark.shared
@pytest.mark.parametrize(("language", "size"), [("en", 6203), ("de", 8060), ("fr", 6528)])
def test_word_level_counts_on_multi30k(
    shared_dir: Path, language: str, size: int, write_lines: Callable[..., Path]
) -> None:
    lines = read_lines(shared_dir / f"data/multi30k/train.{language}.gz")
    config = TokenizerConfig(kind="wordlevel", vocab_size=30000, min_frequency=2)
    assert Tokenizer.train(config, lines).vocab_size == size


@pytest.mark.shared
def test_word_level_as_the_reference_does_it(shared_dir: Path) -> None:
    """The same words with the same ids in the same order; only the names of the special tokens differ."""
    reference = json.loads((shared_dir / "fixtures/reference/text.json").read_text("utf-8"))
    for case in reference["word_level"]["languages"].values():
        tokenizer = Tokenizer.train(TokenizerConfig(kind="wordlevel", vocab_size=30000), case["corpus"])
        assert tokenizer.tokens(range(4, tokenizer.vocab_size)) == case["vocabulary"][4:]
        for encoding in case["encodings"]:
            if not any(special in encoding["text"] for special in case["vocabulary"][:4]):
                assert tokenizer.encode(encoding["text"]) == encoding["ids"]
