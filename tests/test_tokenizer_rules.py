"""Words by a language's rules: the counts and ids of hyunwoongko's recipe, files of words, errors."""

from __future__ import annotations

import copy
import json
import logging
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError, DataError
from dragoman.text import rules
from dragoman.text.readers import read_lines
from dragoman.text.rules import RulesTokenizer
from dragoman.text.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair, train_tokenizers

ENGLISH = ["The dog doesn't bark, the cat does.", "A dog and a cat.", "Don't bark!"]
GERMAN = ["Der Hund bellt z.B. nicht.", "Ein Hund und eine Katze.", "Die Katze bellt nicht, z.B."]
BLANK = spacy.blank("en")
RULES = TokenizerConfig(kind="rules")


def read() -> Iterator[tuple[str, str]]:
    return iter(zip(ENGLISH, GERMAN, strict=True))


def trained(language: str = "en", **changes: Any) -> Tokenizer:
    return Tokenizer.train(RULES.changed(**changes), {"en": ENGLISH, "de": GERMAN}[language], language)


@cache
def learned() -> Tokenizer:
    return trained()


def test_words() -> None:
    tokenizer = trained()
    assert tokenizer.vocabulary() == [*SPECIAL_TOKENS, ".", "a", "bark", "cat", "does", "dog", "n't", "the"]
    assert tokenizer.vocab_size == 12
    assert (tokenizer.unk_id, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    pieces = tokenizer.tokens(tokenizer.encode("The DOG isn't a bird."))
    assert pieces == [
        "the",
        "dog",
        "<unk>",
        "n't",
        "a",
        "<unk>",
        ".",
    ]
    assert tokenizer.normalize("The DOG isn't a bird.") == "the dog is n't a bird ."
    assert tokenizer.decode([2, *tokenizer.encode("The dog isn't."), 3, 1]) == "the dog <unk> n't ."
    assert tokenizer.decode_batch([[], [2, 3]]) == ["", ""]
    assert tokenizer.encode_batch(["a", "", "the"]) == [[5], [], [11]]
    assert tokenizer.encode("") == []


def test_the_order_is_count_then_code_point() -> None:
    tokenizer = Tokenizer.train(RULES, ["b b é é z z a a a"], "en")
    assert tokenizer.vocabulary()[4:] == ["a", "b", "z", "é"]
    assert Tokenizer.train(RULES.changed(vocab_size=6), ["b b é é z z a a a"], "en").vocabulary()[4:] == ["a", "b"]
    assert Tokenizer.train(RULES.changed(min_frequency=3), ["b b é é z z a a a"], "en").vocabulary()[4:] == ["a"]


def test_each_language_has_its_rules() -> None:
    assert trained("de").normalize("Es ist z.B. gut.") == "es ist z.b. gut ."
    assert trained("en").normalize("I don't.") == "i do n't ."
    assert trained("de").normalize("I don't.") == "i don't ."


@pytest.mark.parametrize("special", SPECIAL_TOKENS)
def test_special_tokens_that_text_spells(special: str) -> None:
    tokenizer = Tokenizer.train(RULES, [f"a {special} {special}"] * 9, "xx")
    assert tokenizer.vocabulary().count(special) == 1
    assert tokenizer.vocabulary()[:4] == list(SPECIAL_TOKENS)
    for text in (special, f"{special} a", f"a{special}{special}", special.upper()):
        assert not {1, 2, 3} & set(tokenizer.encode(text))


def test_a_word_that_is_a_special_token_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Today's rules cut each of their signs off; those of another language or age need not."""
    monkeypatch.setattr(rules, "_cut", lambda language, texts, lowercase=True: (text.split() for text in texts))
    tokenizer = Tokenizer.train(RULES, ["a a <s> <s> </s> </s> <pad> <pad>"], "en")
    assert tokenizer.vocabulary() == [*SPECIAL_TOKENS, "a"]
    assert tokenizer.encode("a <s> </s> <pad> <unk>") == [4, 0, 0, 0, 0]


@given(text=st.text(max_size=40))
def test_any_text(text: str) -> None:
    """Nothing but words is lost, and blank pipelines' own tokens are what is looked up."""
    tokenizer = learned()
    words = [token.text.lower() for token in BLANK.tokenizer(text)]
    assert tokenizer.normalize(text) == " ".join(words)
    known = {word: index for index, word in enumerate(tokenizer.vocabulary()) if index > 3}
    assert tokenizer.encode(text) == [known.get(word, 0) for word in words]


def test_white_space_is_a_word_as_the_recipe_has_it() -> None:
    tokenizer = Tokenizer.train(RULES, ["a  b\tc", "a  b\tc"], "en")
    assert tokenizer.tokens(tokenizer.encode("a  b")) == ["a", "▁", "b"]


@pytest.mark.parametrize(("code", "known"), [("de", "de"), ("DE", "de"), ("pt-BR", "pt"), ("de_AT", "de")])
def test_codes(code: str, known: str) -> None:
    assert rules.rules_language(code) == known


@pytest.mark.parametrize("code", ["src", "qq", "", "../en", "en.punctuation", "punctuation", "tokenizer_exceptions"])
def test_a_language_without_rules(code: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        tokenizer = Tokenizer.train(RULES, ENGLISH, code)
    message = f'spaCy has no rules for the language "{code}": words are cut by those for any language.'
    assert caplog.messages == [message]
    assert isinstance(tokenizer, RulesTokenizer)
    assert tokenizer.language == "xx"
    assert tokenizer.normalize("Go, dog!") == "go , dog !"


def test_unlearned_words_are_not_remembered() -> None:
    """A server meets new words all day; spaCy keeps every word that it has seen unless it is told to forget."""
    tokenizer = trained()
    strings = rules._rules("en").vocab.strings
    before = len(strings)
    for index in range(300):
        tokenizer.encode(f"unheard{index}of{index}word")
    assert len(strings) == before


def test_from_several_threads() -> None:
    tokenizer = trained()
    expected = tokenizer.encode(ENGLISH[0])
    found: list[bool] = []

    def work(name: int) -> None:
        for index in range(50):
            tokenizer.encode(f"noise{name}x{index}")
            found.append(tokenizer.encode(ENGLISH[0]) == expected)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 200


def test_no_training_text() -> None:
    for texts in ([], ["", " "]):
        with pytest.raises(DataError, match="holds no words"):
            Tokenizer.train(RULES, texts, "en")


def test_a_vocabulary_that_is_too_small() -> None:
    for joint in (True, False):
        config = RULES.changed(vocab_size=4, joint=joint)
        with pytest.raises(ConfigError, match=r"vocab_size 4 is too small: rules holds a word .* at least 5\."):
            train_tokenizers(config, read, languages=("en", "de"))
    assert trained(vocab_size=5).vocabulary()[4:] == ["."]


# Files


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    tokenizer = trained("de")
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert isinstance(loaded, RulesTokenizer)
    assert (loaded.kind, loaded.language, loaded.lowercase) == ("rules", "de", True)
    assert loaded.vocabulary() == tokenizer.vocabulary()
    assert loaded.encode(GERMAN[0]) == tokenizer.encode(GERMAN[0])
    loaded.save(tmp_path / "y.json")
    assert path.read_bytes() == (tmp_path / "y.json").read_bytes()
    assert copy.deepcopy(loaded).encode(GERMAN[0]) == tokenizer.encode(GERMAN[0])


@pytest.mark.parametrize("joint", [True, False])
def test_a_pair(joint: bool, tmp_path: Path) -> None:
    pair = train_tokenizers(RULES.changed(joint=joint, path="kept"), read, tmp_path, ("en", "de"))
    loaded = train_tokenizers(RULES.changed(joint=joint, path="kept"), read, tmp_path, ("xx", "xx"))
    for one in (pair, loaded, TokenizerPair.load(tmp_path / "kept")):
        assert one.joint is joint
        assert [side.language for side in (one.src, one.tgt)] == ["en", "de"]  # type: ignore[attr-defined]
        assert one.src.normalize("don't z.B.") == "do n't z. b."
        assert one.tgt.normalize("don't z.B.") == "don't z.b."
        assert ("hund" in one.src.vocabulary()) is joint
        assert one.tgt.tokens(one.tgt.encode("Hund")) == ["hund"]
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"src.tokenizer.json", "tgt.tokenizer.json"}


def test_a_joint_vocabulary_of_one_language(tmp_path: Path) -> None:
    pair = train_tokenizers(RULES.changed(path="t.json"), read, tmp_path, ("de", "de"))
    assert pair.src is pair.tgt
    assert (tmp_path / "t.json").is_file()


GOOD: dict[str, Any] = {"kind": "rules", "language": "en", "lowercase": True, "vocabulary": [*SPECIAL_TOKENS, "a"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language": None}, '"language" should be a language code'),
        ({"language": "en.lex_attrs"}, '"language" should be a language code'),
        ({"language": "qq"}, 'this spaCy has no rules for "qq"'),
        ({"lowercase": 1}, '"lowercase" should be true or false'),
        ({"vocabulary": None}, '"vocabulary" should be a list of words'),
        ({"vocabulary": [*SPECIAL_TOKENS, 5]}, '"vocabulary" should be a list of words'),
        ({"vocabulary": []}, "lacks <unk>"),
        ({"vocabulary": ["<unk>", "<s>", "</s>"]}, "lacks <pad> or <blank>"),
        ({"vocabulary": [*SPECIAL_TOKENS, "a", "b", "a"]}, 'has "a" twice'),
    ],
)
def test_damaged_files(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(GOOD))
    assert Tokenizer.load(path).encode("a b") == [4, 0]
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(BundleError, match=message) as caught:
        Tokenizer.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setattr(rules, "_rules", rules._rules.__wrapped__)
    (tmp_path / "t.json").write_text(json.dumps(GOOD))
    advice = r"^the tokenizer kind rules needs the package spacy; pip install 'dragoman\[rules\]'\.$"
    with pytest.raises(ConfigError, match=advice):
        trained()
    with pytest.raises(ConfigError, match=advice):
        Tokenizer.load(tmp_path / "t.json")


def test_rules_that_need_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sudachipy", "sudachipy.tokenizer"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ConfigError, match=r'^spaCy\'s rules for "ja" need a package that is not installed \(.*\); '
    ) as caught:
        Tokenizer.train(RULES, ["猫は本を読む。"], "ja")
    assert "\n" not in str(caught.value)


# Vocabularies of other code


def test_a_list_of_words(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("<s>\n</s>\n<blank>\n<unk>\nThe\nn't\n \nü".encode())
    tokenizer = RulesTokenizer.from_words(path, "en")
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id) == (0, 1, 2, 3)
    assert tokenizer.encode("The isn't <s> the ü") == [4, 3, 5, *[3] * len(BLANK.tokenizer("<s>")), 3, 7]
    assert tokenizer.decode([0, 4, 3, 2, 5, 1]) == "The <unk> n't"
    tokenizer.save(tmp_path / "t.json")
    loaded = Tokenizer.load(tmp_path / "t.json")
    assert loaded.encode("The the") == [4, 3]
    assert (loaded.bos_id, loaded.unk_id) == (0, 3)
    path.write_bytes(b"<unk>\r\n<pad>\r\n<sos>\r\n<eos>\r\nthe\r\n")
    lower = RulesTokenizer.from_words(path, "")
    assert (lower.language, lower.vocab_size, lower.encode("The")) == ("xx", 5, [4])


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"a\nb", "lacks <unk>"), (b"\xff", "not UTF-8"), (None, "No such file"), (b"", "lacks <unk>")],
)
def test_a_list_of_words_that_is_none(data: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(BundleError, match=message) as caught:
        RulesTokenizer.from_words(path, "en")
    assert str(path) in str(caught.value)


# The reference's golden values


@pytest.fixture(scope="module")
def reference(shared_dir: Path) -> dict[str, Any]:
    text: dict[str, Any] = json.loads((shared_dir / "fixtures/reference/text.json").read_text("utf-8"))
    return text


@pytest.mark.shared
@pytest.mark.parametrize("language", ["en", "de"])
def test_word_fields(language: str, reference: dict[str, Any]) -> None:
    """hyunwoongko's words, vocabulary and ids; it names two special tokens otherwise."""
    case = reference["word_fields"]["languages"][language]
    tokenizer = Tokenizer.train(RULES, case["corpus"], language)
    assert tokenizer.vocabulary()[4:] == case["vocabulary"][4:]
    assert [tokenizer.normalize(text).split() for text in case["corpus"]] == case["tokens"]
    ids = tokenizer.encode_batch(case["corpus"][:3])
    longest = max(map(len, ids)) + 2
    assert [[2, *row, 3] + [1] * (longest - 2 - len(row)) for row in ids] == case["batch_of_first_three"]


@pytest.mark.shared
@pytest.mark.parametrize("language", ["en", "de"])
def test_annotated_vocabulary(language: str, reference: dict[str, Any], tmp_path: Path) -> None:
    """The Annotated Transformer's vocabulary keeps case and has its own ids."""
    words = reference["annotated_vocabulary"]["languages"][language]["vocabulary"]
    corpus = reference["word_fields"]["languages"][language]["corpus"]
    (tmp_path / "words.txt").write_text("\n".join(words), "utf-8")
    tokenizer = RulesTokenizer.from_words(tmp_path / "words.txt", language)
    assert tokenizer.vocabulary() == words
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id) == (0, 1, 2, 3)
    blank = spacy.blank(language)
    for text in corpus:
        spoken = [token.text for token in blank.tokenizer(text)]
        assert tokenizer.tokens(tokenizer.encode(text)) == [word if word in words else "<unk>" for word in spoken]


@pytest.mark.shared
@pytest.mark.parametrize(("language", "size"), [("en", 5893), ("de", 7853)])
def test_counts_on_multi30k(shared_dir: Path, language: str, size: int) -> None:
    """English has the words of the recipe's model; German two fewer, whose text was cut by an older spaCy's rules."""
    lines = read_lines(shared_dir / f"data/multi30k/train.{language}.gz")
    assert Tokenizer.train(RULES.changed(vocab_size=30000), lines, language).vocab_size == size
