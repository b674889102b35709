"""SentencePiece: Marian's ids exactly, training that loses nothing, files as Hugging Face has them, damage refused."""

from __future__ import annotations

import copy
import io
import json
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError, DataError
from dragoman.text import sentencepiece as ours
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair, train_tokenizers

ENGLISH = [
    "The old man reads a book.",
    "the old woman reads the old newspaper, doesn't she?",
    "A dog runs, a cat sleeps; the end!",
] * 5
GERMAN = [
    "Der alte Mann liest ein Buch.",
    "Die Tür ist grün und größer als die alte Tür.",
    "Ein Hund rennt, eine Katze schläft – Ende!",
] * 5
ANY_TEXT = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(["▁", *SPECIAL_TOKENS, "<0x41>", ">>deu<<", ">>x<<", " ", "\n", "\0", "\u2585"]),
    ),
    max_size=10,
).map("".join)


@cache
def trained(lowercase: bool = False) -> SentencePieceTokenizer:
    config = TokenizerConfig(kind="sentencepiece", vocab_size=330, lowercase=lowercase)
    tokenizer = Tokenizer.train(config, ENGLISH + GERMAN)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


@cache
def spm(language: str, **options: Any) -> bytes:
    """A model with SentencePiece's own ids: <unk> 0, <s> 1, </s> 2, no <pad>."""
    stream = io.BytesIO()
    settings = {"vocab_size": 70, "hard_vocab_limit": False, "minloglevel": 3, **options}
    texts = {"en": ENGLISH, "de": GERMAN}[language]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=stream, **settings)
    return stream.getvalue()


def marian_folder(folder: Path, separate: bool = False) -> Path:
    """As OPUS-MT's folders: two models, and a vocabulary that lacks one of the pieces."""
    pieces = []
    for language in ("en", "de"):
        processor = sentencepiece.SentencePieceProcessor(model_proto=spm(language))
        pieces.append([processor.id_to_piece(index) for index in range(3, processor.get_piece_size())])
    both = list(dict.fromkeys(pieces[0] + pieces[1]))
    both.remove("w")

    def vocabulary(words: list[str]) -> str:
        # Of separate vocabularies transformers takes the special tokens' ids from the source's.
        first, last = ["</s>", "<unk>"], [">>deu<<", "<pad>"]
        names = [*first, *last[::-1], *words] if separate else [*first, *words, *last]
        return json.dumps({piece: index for index, piece in enumerate(names)})

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.spm").write_bytes(spm("en"))
    (folder / "target.spm").write_bytes(spm("de"))
    (folder / "vocab.json").write_text(vocabulary(pieces[0] if separate else both))
    if separate:
        (folder / "target_vocab.json").write_text(vocabulary(pieces[1]))
    return folder


def marian(folder: Path, **options: Any) -> Any:
    from transformers import MarianTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MarianTokenizer.from_pretrained(folder, **options)


# Marian's rules


LIVE = [
    *ENGLISH[:3],
    *GERMAN[:3],
    ">>deu<< the book",
    ">>deu<<the",
    ">>deu<<",
    "the >>deu<< book",
    ">>deu the book",
    "  x  y ",
    "",
    " ",
    "two woman",
    "ﬁ ½ ▁ q\tz\n",
    "Tür 猫 " * 40,
]


@pytest.mark.parametrize("separate", [False, True])
def test_ids_and_text_are_those_of_transformers(separate: bool, tmp_path: Path) -> None:
    theirs = marian(marian_folder(tmp_path, separate), separate_vocabs=separate)
    pair = TokenizerPair.load(tmp_path)
    assert pair.joint is not separate
    for text in LIVE:
        src, tgt = theirs(text).input_ids, theirs(text_target=text).input_ids
        assert pair.src.encode(text) == src[:-1]
        assert pair.tgt.encode(text) == tgt[:-1]
        assert (pair.src.eos_id, pair.tgt.eos_id) == (src[-1], tgt[-1])
        assert pair.tgt.decode(tgt) == theirs.decode(tgt, skip_special_tokens=True)
    assert pair.src.encode_batch(LIVE) == [row[:-1] for row in theirs(LIVE).input_ids]
    assert {pair.tgt.pad_id, pair.tgt.bos_id, pair.src.bos_id} == {theirs.pad_token_id}
    assert pair.src.unk_id == theirs.unk_token_id


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, TokenizerPair]:
    folder = marian_folder(tmp_path_factory.mktemp("marian"))
    return marian(folder), TokenizerPair.load(folder)


@given(text=st.one_of(st.text(max_size=30), st.text(" theoldücat,.'\t\n>▁ﬁ½", max_size=30)))
def test_any_text_has_the_ids_of_transformers(live: tuple[Any, TokenizerPair], text: str) -> None:
    """But for what only we promise: special tokens and unheard-of languages stay text."""
    assume(not any(sign in text for sign in ("<unk>", "</s>", "<pad>")) and not text.startswith(">>"))
    theirs, pair = live
    assert pair.src.encode(text) == theirs(text).input_ids[:-1]
    ids = theirs(text_target=text).input_ids
    assert pair.tgt.encode(text) == ids[:-1]
    assert pair.tgt.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_a_piece_that_only_the_other_model_knows(tmp_path: Path) -> None:
    """A character that a model does not know is looked up in the vocabulary all the same, as transformers does."""
    theirs = marian(marian_folder(tmp_path))
    src = TokenizerPair.load(tmp_path).src
    assert src.tokens(src.encode("ü")) == ["▁", "ü"]
    assert src.encode("ü") == theirs("ü").input_ids[:-1]


def test_quoted_words_are_not_lost_as_a_language(tmp_path: Path) -> None:
    src = TokenizerPair.load(marian_folder(tmp_path)).src
    assert src.tokens(src.encode(">>deu<< the"))[0] == ">>deu<<"
    assert src.decode(src.encode(">>the<< book")).replace(" ", "") == "thebook"


def test_a_written_folder_is_read_by_transformers(tmp_path: Path) -> None:
    for joint in (True, False):
        folder = tmp_path / str(joint)
        config = TokenizerConfig(kind="sentencepiece", vocab_size=330, joint=joint)
        pair = train_tokenizers(config, lambda: zip(ENGLISH, GERMAN, strict=True))
        pair.save(folder)
        theirs = marian(folder, separate_vocabs=not joint)
        for text in (ENGLISH[0], GERMAN[1], "unseen 猫"):
            assert theirs(text).input_ids == [*pair.src.encode(text), 3]
            assert theirs(text_target=text).input_ids == [*pair.tgt.encode(text), 3]


def test_marian_files_come_back_as_they_were(tmp_path: Path) -> None:
    pair = TokenizerPair.load(marian_folder(tmp_path / "a"))
    pair.save(tmp_path / "b")
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    read = [list(json.loads((tmp_path / name / "vocab.json").read_text()).items()) for name in "ab"]
    assert read[0] == read[1]
    assert {path.name for path in (tmp_path / "b").iterdir()} == {"source.spm", "target.spm", "vocab.json"}
    again = TokenizerPair.load(tmp_path / "b")
    assert again.joint
    assert again.src.model == spm("en")  # type: ignore[attr-defined]
    assert again.tgt.model == spm("de")  # type: ignore[attr-defined]


# Trained by us


@pytest.mark.parametrize("lowercase", [False, True])
@given(text=ANY_TEXT)
@example("")
@example("  leading and  trailing ")
@example("</s> <unk> ▁ \0 \u2585 <0x41>")
@example("İ ﬁ ½ ß Straße ＡＢＣ")
@example("\u0344\u0301 \u1100\u1161 \ufeff\u200b\u2028\x85")
def test_nothing_is_lost_but_by_normalisation(lowercase: bool, text: str) -> None:
    tokenizer = trained(lowercase)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    assert all(len(SPECIAL_TOKENS) <= index < tokenizer.vocab_size for index in ids)
    assert tokenizer.encode_batch([text, "x"]) == [ids, tokenizer.encode("x")]
    assert len(tokenizer.tokens(ids)) == len(ids)
    if text.isascii() and text.isprintable():
        plain = " ".join(text.split())
        assert tokenizer.normalize(text) == (plain.lower() if lowercase else plain)


@given(text=ANY_TEXT)
@example("</s>")
@example(">>deu<<</s>")
def test_text_never_gives_a_special_id_but_unknown(text: str) -> None:
    pieces = {piece: index for index, piece in enumerate(["</s>", "<unk>", "▁", "a", ">>deu<<", "<s>", "<pad>"])}
    # A careless model that reads special tokens from text.
    model = spm("en", user_defined_symbols="<pad>,>>deu<<")
    tokenizer = SentencePieceTokenizer(model, pieces)
    assert not {0, 5, 6} & set(tokenizer.encode(text))


def test_that_careless_model_is_one() -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm("en", user_defined_symbols="<pad>,>>deu<<"))
    assert "<pad>" in processor.encode("a<pad>", out_type=str)


def test_the_vocabulary() -> None:
    tokenizer = trained()
    names = tokenizer.vocabulary()
    assert names[:5] == [*SPECIAL_TOKENS, "<0x00>"]
    assert len(set(names)) == len(names) == tokenizer.vocab_size
    # The trainer may end a few pieces short of what it was asked for.
    assert 315 <= tokenizer.vocab_size <= 330
    assert (tokenizer.unk_id, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.kind == "sentencepiece"
    assert tokenizer.has_bos
    assert tokenizer.tokens([2, *tokenizer.encode("the 猫"), 3])[0] == "<s>"
    assert tokenizer.tokens(tokenizer.encode("猫"))[1:] == ["<0xE7>", "<0x8C>", "<0xAB>"]
    assert tokenizer.decode([2, *tokenizer.encode("the 猫"), 0, 3, 1]) == "the 猫"
    assert tokenizer.decode_batch([[2, 3], tokenizer.encode("end")]) == ["", "end"]


def test_lower_case() -> None:
    assert trained(True).normalize("Große TÜR") == "große tür"
    assert trained(False).normalize("Große TÜR") == "Große TÜR"


def test_the_same_text_gives_the_same_model() -> None:
    config = TokenizerConfig(kind="sentencepiece", vocab_size=330)
    models = {Tokenizer.train(config, iter(ENGLISH + GERMAN)).model for _ in range(2)}  # type: ignore[attr-defined]
    assert models == {trained().model}


def test_a_sample_of_long_text_is_drawn_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text beyond what the trainer keeps is sampled: the rare end takes part, memory does not grow."""
    monkeypatch.setattr(ours, "_LINES", 120)
    config = TokenizerConfig(kind="sentencepiece", vocab_size=400)
    texts = [f"{chr(0x4E00 + index)} word" for index in range(400)]
    models = []
    for _ in range(2):
        tokenizer = Tokenizer.train(config, iter(texts))
        models.append(tokenizer.model)  # type: ignore[attr-defined]
    assert models[0] == models[1]
    seen = sorted(ord(piece) - 0x4E00 for piece in tokenizer.vocabulary() if len(piece) == 1 and piece >= "一")
    assert len([index for index in seen if index < 400]) == 120
    assert seen[0] < 50
    assert 350 < seen[119] < 400


@pytest.mark.parametrize("size", [1, 4, 100, 260])
def test_a_vocabulary_that_is_too_small(size: int) -> None:
    message = rf"^tokenizer\.vocab_size {size} is too small: .* give at least 2\d\d\.$"
    with pytest.raises(ConfigError, match=message) as found:
        Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=size), ENGLISH)
    least = int(str(found.value).split()[-1].rstrip("."))
    with pytest.raises(ConfigError, match=f"at least {least}"):
        Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=least - 1), ENGLISH)
    tokenizer = Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=least), ENGLISH)
    assert tokenizer.vocab_size == least
    assert tokenizer.decode(tokenizer.encode("Tür 猫")) == "Tür 猫"


def test_a_small_text_gives_fewer_pieces() -> None:
    assert 280 < Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=8000), ENGLISH).vocab_size < 500


@pytest.mark.parametrize("texts", [[], ["", " "], ["\0"], ["\u2585"], ["\u200b"]])
def test_no_training_text(texts: list[str]) -> None:
    config = TokenizerConfig(kind="sentencepiece", vocab_size=330)
    with pytest.raises(DataError, match="holds no words"):
        Tokenizer.train(config, texts)
    assert Tokenizer.train(config, [*texts, "x x"]).encode("x")


@pytest.mark.parametrize(
    "text",
    ["word " * 20_000, "x" * 50_000, "猫" * 20_000, "a\0b \x01\x7f c\td\ne\r\u2028f", "half \u2585 kept ▁ here"],
    ids=["many words", "one word", "no spaces", "control characters", "reserved characters"],
)
def test_text_that_the_trainer_would_drop(text: str) -> None:
    """Alone it trains: the trainer itself leaves out long lines and lines with NUL or its reserved character."""
    tokenizer = Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=330), [text])
    longest = max(tokenizer.vocabulary()[260:], key=len)
    assert len(longest) > 1 or len(text) < 100
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text)


def test_long_text_is_cut_without_loss() -> None:
    text = "".join(f" w{index}" for index in range(3000)) + "y" * 5000
    pieces = list(ours._lines(text))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) == 256
    assert all(piece.startswith(" w") for piece in pieces[:10])
    assert [len(piece) for piece in ours._lines("猫" * 600)] == [256, 256, 88]
    assert list(ours._lines("")) == [""]


def test_what_reading_the_text_raises_comes_through() -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise DataError("line 2 is damaged.")

    with pytest.raises(DataError, match=r"^line 2 is damaged\.$"):
        Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=330), broken())


def test_training_writes_nothing_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=330), ENGLISH)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


# Files


@pytest.mark.parametrize("suffix", [".spm", ".model"])
def test_saved_and_loaded(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine{suffix}"
    trained().save(path)
    assert {file.name for file in tmp_path.iterdir()} == {path.name, "mine.vocab.json"}
    loaded = Tokenizer.load(path)
    assert loaded.vocabulary() == trained().vocabulary()
    assert loaded.encode("the Tür") == trained().encode("the Tür")


def test_a_foreign_model_alone(tmp_path: Path) -> None:
    """Its own ids, as ``spm_encode`` gives them, and a <pad> at the end, which most models lack."""
    path = tmp_path / "x.model"
    path.write_bytes(spm("en"))
    tokenizer = Tokenizer.load(path)
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm("en"))
    for text in (*ENGLISH, "unseen: 猫"):
        assert tokenizer.encode(text) == processor.encode(text)
    assert tokenizer.decode(tokenizer.encode(ENGLISH[0])) == ENGLISH[0]
    size = processor.get_piece_size()
    assert (tokenizer.vocab_size, tokenizer.pad_id) == (size + 1, size)
    assert (tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2)


@pytest.mark.parametrize("joint", [True, False])
def test_a_pair(joint: bool, tmp_path: Path) -> None:
    config = TokenizerConfig(kind="sentencepiece", vocab_size=400, joint=joint)
    pair = train_tokenizers(config, lambda: zip(ENGLISH, GERMAN, strict=True))
    assert pair.joint is joint
    pair.save(tmp_path)
    names = {"source.spm", "target.spm", "vocab.json"} | (set() if joint else {"target_vocab.json"})
    assert {path.name for path in tmp_path.iterdir()} == names
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint is joint
    assert loaded.src.encode(ENGLISH[0]) == pair.src.encode(ENGLISH[0])
    assert loaded.tgt.encode(GERMAN[0]) == pair.tgt.encode(GERMAN[0])
    assert (pair.src.encode("Tür") == pair.tgt.encode("Tür")) is joint


def test_a_saved_pair_replaces_one_of_another_layout(tmp_path: Path) -> None:
    pairs = []
    for kind, joint in (("sentencepiece", False), ("sentencepiece", True), ("wordlevel", False), ("wordlevel", True)):
        config = TokenizerConfig(kind=kind, vocab_size=330, joint=joint)
        pairs.append(train_tokenizers(config, lambda: zip(ENGLISH, GERMAN, strict=True)))
    for pair in [*pairs, *pairs[::-1]]:
        pair.save(tmp_path)
        loaded = TokenizerPair.load(tmp_path)
        assert (loaded.src.kind, loaded.joint) == (pair.src.kind, pair.joint)
        assert loaded.tgt.vocabulary() == pair.tgt.vocabulary()


def test_kinds_that_cannot_be_kept_together(tmp_path: Path) -> None:
    words = Tokenizer.train(TokenizerConfig(kind="wordlevel"), ENGLISH)
    with pytest.raises(ConfigError, match="kinds sentencepiece and wordlevel cannot be kept together"):
        TokenizerPair(words, trained()).save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["sub/t.spm", "sub/t.model", "sub/t", "sub/t.json"])
def test_a_path_is_written_once_and_then_loaded(tmp_path: Path, name: str) -> None:
    def never() -> Iterator[tuple[str, str]]:
        raise AssertionError("the training text was read")

    config = TokenizerConfig(kind="sentencepiece", vocab_size=330, path=name)
    first = train_tokenizers(config, lambda: zip(ENGLISH, GERMAN, strict=True), tmp_path)
    assert (tmp_path / name).is_dir() is not name.endswith(("spm", "model"))
    again = train_tokenizers(config, never, tmp_path)
    assert again.joint
    assert again.tgt.encode("Tür") == first.tgt.encode("Tür")


def test_copies_work() -> None:
    twin = copy.deepcopy(trained())
    assert twin.encode("the Tür") == trained().encode("the Tür")
    assert twin.shares_vocabulary(trained())


GOOD = {"</s>": 0, "<unk>": 1, "▁the": 2, "<pad>": 3}


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([], "no JSON object"),
        ({**GOOD, "a": "4"}, "no JSON object of pieces and ids"),
        ({**GOOD, "a": True}, "no JSON object of pieces and ids"),
        ({**GOOD, "a": 5}, "have gaps"),
        ({**GOOD, "a": 3}, "have gaps"),
        ({**GOOD, "a": -1}, "have gaps"),
        ({"</s>": 0, "<unk>": 1}, "lacks <pad>"),
        ({"a": 0}, "lacks <unk>, <pad>, </s>"),
    ],
)
def test_damaged_vocabularies(pieces: Any, message: str, tmp_path: Path) -> None:
    folder = marian_folder(tmp_path)
    (folder / "vocab.json").write_text(json.dumps(pieces))
    with pytest.raises(BundleError, match=message) as caught:
        TokenizerPair.load(folder)
    assert f"{folder / 'source.spm'} with vocab.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("source.spm", b"", "source.spm with vocab.json is no SentencePiece model"),
        ("source.spm", b"garbage", "source.spm with vocab.json is no SentencePiece model"),
        ("target.spm", b"\xff" * 100, "target.spm with vocab.json is no SentencePiece model"),
        ("vocab.json", b"{", r"vocab\.json is not valid JSON"),
        ("vocab.json", b"\xff", r"vocab\.json is not valid JSON"),
        ("vocab.json", b"[" * 100_000, r"vocab\.json is not valid JSON"),
        ("vocab.json", None, r"source\.spm has no vocab\.json beside it"),
        ("target.spm", None, r"target\.spm: No such file"),
    ],
)
def test_damaged_folders(name: str, data: bytes | None, message: str, tmp_path: Path) -> None:
    folder = marian_folder(tmp_path)
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    with pytest.raises(BundleError, match=message) as caught:
        TokenizerPair.load(folder)
    assert "\n" not in str(caught.value)


def test_a_model_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(spm("en", eos_id=-1))
    with pytest.raises(BundleError, match=r"x\.model: its vocabulary lacks </s>; use"):
        Tokenizer.load(path)


def test_a_model_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(spm("en"))
    with pytest.raises(BundleError, match=r"not UTF-8.* name it \.model"):
        Tokenizer.load(path)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    advice = r"^the tokenizer kind sentencepiece needs the package sentencepiece; pip install 'dragoman\[marian\]'\.$"
    with pytest.raises(ConfigError, match=advice):
        Tokenizer.train(TokenizerConfig(kind="sentencepiece"), ENGLISH)
    with pytest.raises(ConfigError, match=advice):
        TokenizerPair.load(marian_folder_of_bytes(tmp_path))


def marian_folder_of_bytes(folder: Path) -> Path:
    (folder / "source.spm").write_bytes(b"any")
    (folder / "vocab.json").write_text(json.dumps(GOOD))
    return folder


def test_a_character_that_is_not_whole_is_left_out_at_the_end() -> None:
    tokenizer = trained()
    text = "Tür 猫 😀! x"
    ids = tokenizer.encode(text)
    every = [tokenizer.decode_whole(ids[:count]) for count in range(len(ids) + 1)]
    assert all(text.startswith(one) for one in every)
    assert (every[-1], every[0]) == (text, "")
    assert not any("�" in one for one in every)
    assert sum("�" in tokenizer.decode(ids[:count]) for count in range(len(ids))) == 5
    byte = {value: tokenizer.pieces[f"<0x{value:02X}>"] for value in range(256)}
    # Bytes that nothing can complete stay as decoding shows them, and so does a whole character of bytes.
    for odd, shown in (
        ([0x80], "�"),
        ([0xE7, 0xE7], "�"),
        ([0xFF, 0xE7], "�"),
        ([0xE7, 0x41], "�A"),
        ([0xC3, 0xBC], "ü"),
    ):
        assert tokenizer.decode_whole([byte[value] for value in odd]) == shown
    assert tokenizer.decode_whole([*ids[:2], byte[0xE7], tokenizer.eos_id]) == tokenizer.decode(ids[:2])
