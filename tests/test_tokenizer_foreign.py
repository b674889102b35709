"""hkproj's word-level JSON: its ids for ordinary text, its file unchanged, and no text that ends a sentence."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import ModelConfig, TokenizerConfig
from dragoman.errors import BundleError
from dragoman.text.batching import collate
from dragoman.text.foreign_words import SPECIAL_TOKENS
from dragoman.text.readers import read_lines
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

TEXTS = ["The dog doesn't bark, the cat does.", "The dog and the cat.", "EOS [ ] [ ] EOS bark!", "Der Hund. Der Hund!"]


def recipe(texts: list[str], **trainer: Any) -> tokenizers.Tokenizer:
    """Word level as hkproj's code builds it."""
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    settings = {"special_tokens": list(SPECIAL_TOKENS), "min_frequency": 2, "show_progress": False, **trainer}
    inner.train_from_iterator(texts, tokenizers.trainers.WordLevelTrainer(**settings))
    return inner


def saved(folder: Path, texts: list[str] = TEXTS, **trainer: Any) -> Path:
    path = folder / "tokenizer_en.json"
    recipe(texts, **trainer).save(str(path))
    return path


@cache
def both() -> tuple[Any, Tokenizer]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder))
        return tokenizers.Tokenizer.from_file(str(path)), Tokenizer.load(path)


@given(text=st.one_of(st.text(max_size=30), st.lists(st.sampled_from(" ".join(TEXTS).split())).map(" ".join)))
def test_the_same_ids_as_its_own_code(text: str) -> None:
    theirs, ours = both()
    assert ours.encode(text) == theirs.encode(text).ids
    assert ours.encode_batch([text, "the"]) == [ours.encode(text), ours.encode("the")]
    assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text).ids, skip_special_tokens=False)
    assert ours.normalize(text) == text


@given(text=st.lists(st.sampled_from([*SPECIAL_TOKENS, "the", "[", "]", "EOS", " ", "x"])).map("".join))
def test_text_never_gives_a_special_id_but_unknown(text: str) -> None:
    _, ours = both()
    assert not {1, 2, 3} & set(ours.encode(text))
    assert ours.encode_batch([text]) == [ours.encode(text)]


def test_a_typed_end_is_three_words() -> None:
    theirs, ours = both()
    assert theirs.encode("the [EOS] cat").ids[1] == 3
    assert ours.tokens(ours.encode("the [EOS] cat")) == ["the", "[", "EOS", "]", "cat"]


def test_its_properties() -> None:
    theirs, ours = both()
    assert ours.kind == "wordlevel"
    assert (ours.unk_id, ours.pad_id, ours.bos_id, ours.eos_id) == (0, 1, 2, 3)
    assert ours.vocab_size == theirs.get_vocab_size()
    assert ours.vocabulary() == [theirs.id_to_token(index) for index in range(ours.vocab_size)]
    assert ours.decode([2, *ours.encode("the bird"), 3, 1, 1]) == "the [UNK]"
    assert ours.tokens([2, 0, 3]) == ["[SOS]", "[UNK]", "[EOS]"]


def test_the_file_is_written_as_it_was(tmp_path: Path) -> None:
    path = saved(tmp_path)
    one = Tokenizer.load(path)
    TokenizerPair(one, one).save(tmp_path / "joint")
    assert (tmp_path / "joint" / "tokenizer.json").read_bytes() == path.read_bytes()
    TokenizerPair(one, Tokenizer.load(path)).save(tmp_path / "two")
    loaded = TokenizerPair.load(tmp_path / "two")
    assert not loaded.joint
    assert (tmp_path / "two" / "tgt.tokenizer.json").read_bytes() == path.read_bytes()
    assert loaded.tgt.encode("the cat") == one.encode("the cat")


def test_ids_of_its_own(tmp_path: Path) -> None:
    path = saved(tmp_path, special_tokens=["[PAD]", "[UNK]", "[EOS]", "[SOS]"])
    tokenizer = Tokenizer.load(path)
    assert (tokenizer.unk_id, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (1, 0, 3, 2)
    assert tokenizer.encode("bird") == [1]
    assert tokenizer.decode([3, *tokenizer.encode("the bird"), 2, 0]) == "the [UNK]"


def test_what_stands_around_the_words_is_left_to_batches(tmp_path: Path) -> None:
    inner = recipe(TEXTS)
    inner.enable_padding(length=9, pad_id=1, pad_token="[PAD]")
    inner.enable_truncation(3)
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        "[SOS] $0 [EOS]", None, [("[SOS]", 2), ("[EOS]", 3)]
    )
    inner.save(str(tmp_path / "t.json"))
    tokenizer = Tokenizer.load(tmp_path / "t.json")
    assert tokenizer.tokens(tokenizer.encode("the dog and the cat")) == ["the", "dog", "[UNK]", "the", "cat"]


def changed(path: Path, **model: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return {**whole, "model": {**whole["model"], **model}}


def test_damaged_files(tmp_path: Path) -> None:
    path = saved(tmp_path)
    whole = json.loads(path.read_text("utf-8"))
    words = whole["model"]["vocab"]
    added = {**whole["added_tokens"][0], "id": 4, "content": "the"}
    unmarked = [token for token in whole["added_tokens"] if token["content"] != "[EOS]"]
    without = {word: index for word, index in words.items() if word != "[EOS]"}
    gaps = {word: index + (index > 5) for word, index in words.items()}
    cases: list[tuple[dict[str, Any], str]] = [
        ({**changed(path, vocab=without), "added_tokens": unmarked}, r"its vocabulary lacks \[EOS\]"),
        (changed(path, vocab=gaps), "have gaps"),
        (changed(path, unk_token="the"), r"its unknown token is the, not \[UNK\]"),
        ({**whole, "added_tokens": [*whole["added_tokens"], added]}, r"no special tokens \(the\)"),
        ({**whole, "pre_tokenizer": {"type": "Nothing"}}, "not a tokenizer file"),
    ]
    for value, message in cases:
        path.write_text(json.dumps(value), "utf-8")
        with pytest.raises(BundleError, match=message) as caught:
            Tokenizer.load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.shared
@pytest.mark.parametrize("language", ["en", "de"])
def test_the_reference(language: str, shared_dir: Path, tmp_path: Path) -> None:
    rule = json.loads((shared_dir / "fixtures/reference/text.json").read_text("utf-8"))["word_level"]
    case = rule["languages"][language]
    tokenizer = Tokenizer.load(saved(tmp_path, case["corpus"], vocab_size=30000))
    assert tokenizer.vocabulary() == case["vocabulary"]
    compared = 0
    for encoding in case["encodings"]:
        if not any(special in encoding["text"] for special in SPECIAL_TOKENS):
            compared += 1
            assert tokenizer.encode(encoding["text"]) == encoding["ids"]
            assert tokenizer.tokens(encoding["ids"]) == encoding["tokens"]
            assert tokenizer.decode(encoding["ids"]) == encoding["decoded_with_specials"]
    assert compared >= 2


@pytest.mark.shared
@pytest.mark.parametrize(("language", "size"), [("en", 6203), ("de", 8060)])
def test_counts_on_multi30k(language: str, size: int, shared_dir: Path, tmp_path: Path) -> None:
    lines = list(read_lines(shared_dir / f"data/multi30k/train.{language}.gz"))
    path = saved(tmp_path, lines, vocab_size=30000)
    tokenizer = Tokenizer.load(path)
    assert tokenizer.vocab_size == size
    theirs = tokenizers.Tokenizer.from_file(str(path))
    assert tokenizer.encode_batch(lines) == [row.ids for row in theirs.encode_batch(lines)]


@pytest.mark.shared
def test_whitespace_split(shared_dir: Path) -> None:
    """The words of our own word level are the reference's (hkproj's file brings its rule along)."""
    reference = json.loads((shared_dir / "fixtures/reference/text.json").read_text("utf-8"))
    for case in reference["whitespace_split"]["cases"]:
        ours = Tokenizer.train(TokenizerConfig(kind="wordlevel", min_frequency=1), [case["text"]])
        assert ours.tokens(ours.encode(case["text"])) == case["tokens"]


@pytest.mark.shared
def test_fixed_length_items(shared_dir: Path) -> None:
    """hkproj's rows of one length hold what our batches hold, which end with their longest sentence."""
    reference = json.loads((shared_dir / "fixtures/reference/text.json").read_text("utf-8"))
    config = ModelConfig(src_vocab_size=20, tgt_vocab_size=20, d_model=4, n_heads=2, src_bos=True)
    compared = 0
    for case in reference["fixed_length_items"]["cases"]:
        rows = case["result"]
        if "encoder_input" not in rows:
            continue
        compared += 1
        # A second, longer pair, so that the first is padded.
        length = case["seq_len"]
        longer = ([5] * (length - 2), [5] * (length - 1))
        batch = collate([(case["source"], case["target"]), longer], config, [0, 1])
        assert batch.src[0].tolist() == rows["encoder_input"]
        assert batch.tgt_in[0].tolist() == rows["decoder_input"]
        assert batch.tgt_out[0].tolist() == rows["label"]
    assert compared >= 2
