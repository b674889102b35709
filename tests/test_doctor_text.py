"""The doctor on text: each kind of trouble is provoked, and honest text gives no alarm."""

from __future__ import annotations

import gzip
import itertools
import random
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import phrasebook
from dragoman.config import RunConfig
from dragoman.preflight import sides, text
from dragoman.preflight.finding import Finding, share_text
from dragoman.preflight.start import outcome, text_checks
from dragoman.preflight.survey import Pair, Survey, key, survey
from dragoman.preflight.writing import script_of, script_of_language


@pytest.fixture(scope="module")
def honest() -> list[Pair]:
    """Two thousand sentences of the phrasebook."""
    return [(pair.src, pair.tgt) for pair in phrasebook.generate(2000, 0, 0, seed=3).train]


@pytest.fixture(scope="module")
def unseen() -> list[Pair]:
    return [(pair.src, pair.tgt) for pair in phrasebook.generate(100, 200, 0, seed=3).valid]


def look(pairs: Iterable[Pair], held: dict[str, Sequence[Pair]] | None = None, most: int = 10**6) -> Survey:
    return survey(pairs, held or {}, most)


def with_first(pairs: list[Pair], changed: dict[int, Pair]) -> list[Pair]:
    return [changed.get(number, pair) for number, pair in enumerate(pairs)]


def only(findings: Iterable[Finding]) -> Finding:
    found = list(findings)
    assert len(found) == 1, found
    assert found[0].text.endswith(".")
    return found[0]


def everything(config: RunConfig, pairs: list[Pair], held: dict[str, Sequence[Pair]]) -> list[Finding]:
    seen = look(pairs, held)
    return [finding for check in text_checks(config, seen, held) for finding in outcome(check).findings]


def config(src_lang: str, tgt_lang: str) -> RunConfig:
    data = {"src_lang": src_lang, "tgt_lang": tgt_lang, "train": {"src": "a", "tgt": "b"}}
    return RunConfig(data=data, train={"max_steps": 1})


def test_the_phrasebook_gives_no_finding(honest: list[Pair], unseen: list[Pair]) -> None:
    assert everything(config("en", "de"), honest, {"valid": unseen[:100], "test": unseen[100:]}) == []


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        return [line.rstrip("\n") for line in stream]


@pytest.mark.shared
@pytest.mark.parametrize("target", ["de", "fr"])
def test_multi30k_gives_no_alarm(shared_dir: Path, target: str) -> None:
    folder = shared_dir / "data" / "multi30k"
    pairs, valid, test = (
        list(zip(_lines(folder / f"{name}.en.gz"), _lines(folder / f"{name}.{target}.gz"), strict=True))
        for name in ("train", "val", "test_2016_flickr")
    )
    found = everything(config("en", target), pairs, {"valid": valid, "test": test})
    assert all(finding.severity == "note" for finding in found), found
    # What it notes is there: a caption with &amp;, and one with a tab.
    assert all(("entities" in finding.text) or ("tab" in finding.text) for finding in found)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("folder", "names", "langs"),
    [
        ("flores200", ("dev.eng_Latn.gz", "dev.zho_Hans.gz"), ("eng_Latn", "zho_Hans")),
        ("flores200", ("dev.rus_Cyrl.gz", "dev.zho_Hant.gz"), ("rus_Cyrl", "zho_Hant")),
        ("flores_v1_ne-en", ("dev.ne.gz", "dev.en.gz"), ("ne", "en")),
        ("tanaka_en-ja", ("train.en.gz", "train.ja.gz"), ("en", "ja")),
        ("bible_en-es", ("train.en.gz", "train.es.gz"), ("en", "es")),
    ],
)
def test_other_honest_text_gives_no_alarm(
    shared_dir: Path, folder: str, names: tuple[str, str], langs: tuple[str, str]
) -> None:
    src, tgt = (_lines(shared_dir / "data" / folder / name) for name in names)
    pairs = list(zip(src, tgt, strict=True))[:6000]
    assert everything(config(*langs), pairs, {}) == []
    shifted = list(zip(src, tgt[1:], strict=False))[:6000]
    assert "source is moved up by a line" in only(sides.alignment(look(shifted))).text


NOISE = {
    "a carriage return": "one\rtwo",
    "byte order mark": "\ufeffone two",
    "HTML entities": "one &amp; two",
    "replacement character": "one tw\ufffd",
    "a tab": "one\ttwo",
    "control characters": "one\x07two",
    "U+2028": "one\u2028two",
    "NFD": unicodedata.normalize("NFD", "über Äpfel"),
}


@pytest.mark.parametrize("name", NOISE)
def test_noise_is_named_with_its_side_its_share_and_its_place(name: str, honest: list[Pair]) -> None:
    dirty = with_first(honest, {at: (honest[at][0], NOISE[name]) for at in (17, 400, 900)})
    finding = only(text.noise(look(dirty)))
    assert name in finding.text
    assert finding.severity == "warning"
    assert "0.15 % of the targets" in finding.text
    assert "sources" not in finding.text
    assert "pair 18;" in finding.text


def test_a_single_oddity_in_a_large_text_is_a_note(honest: list[Pair]) -> None:
    dirty = with_first(honest, {5: ("one &lt; two", "eins")})
    assert only(text.noise(look(dirty))).severity == "note"


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize(
    "sentence", ["Köln ist schön", "„naïve“ Gemüse", "Это предложение", "c’est à côté", "你好世界"]
)
def test_utf8_read_as_something_else_is_seen(encoding: str, sentence: str, honest: list[Pair]) -> None:
    try:
        broken = sentence.encode().decode(encoding)
    except UnicodeDecodeError:
        # Five bytes are nothing in Windows-1252; programs leave them as they are.
        broken = "".join(
            bytes([byte]).decode(encoding) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(byte)
            for byte in sentence.encode()
        )
    dirty = with_first(honest, {at: (broken, honest[at][1]) for at in range(10)})
    assert any("read as Latin-1" in finding.text for finding in text.noise(look(dirty)))


@pytest.mark.parametrize(
    "sentence",
    [
        "Das war ein Spaß“, sagte er.",
        "« voilà » dit-elle",
        "« voilà\u00a0» dit-elle",
        "NÃO É BÃO",
        "Ãrbol Âge",
        "À “CAFɔ",
    ],
)
def test_honest_accents_are_no_wrong_encoding(sentence: str, honest: list[Pair]) -> None:
    honest = with_first(honest, dict.fromkeys(range(10), (sentence, sentence)))
    assert not [finding for finding in text.noise(look(honest)) if "Latin-1" in finding.text]


def test_letters_that_nfc_itself_takes_apart_are_not_called_decomposed(honest: list[Pair]) -> None:
    letter = "\u0958"  # DEVANAGARI LETTER QA: NFC writes it as two
    assert unicodedata.normalize("NFC", letter) != letter
    assert not list(text.noise(look(with_first(honest, {1: (letter * 3, "x")}))))


def test_repeats(honest: list[Pair]) -> None:
    finding = only(sides.repeats(look(honest + honest[:400])))
    assert "17 % of 2,400" in finding.text
    assert list(sides.repeats(look(honest + honest[:100]))) == []


def test_copies(honest: list[Pair]) -> None:
    dirty = with_first(honest, {at: (honest[at][0], honest[at][0].upper()) for at in range(100, 160)})
    finding = only(sides.copies(look(dirty)))
    assert "3 % of the targets" in finding.text
    assert "pair 101" in finding.text
    names = with_first(honest, dict.fromkeys(range(200), ("Berlin", "Berlin")))
    assert list(sides.copies(look(names))) == []


def test_overlap_with_held_out_text(honest: list[Pair], unseen: list[Pair]) -> None:
    shouted = [(src.upper(), f"  {tgt} ") for src, tgt in honest[:10]]
    seen = look(honest, {"valid": unseen, "test": [*unseen[:90], *shouted]})
    finding = only(sides.overlap(seen))
    assert "10 % of the pairs of data.test" in finding.text
    assert seen.shared["valid"].pairs == 0
    other_targets = [(src, f"anders {at}") for at, (src, _) in enumerate(honest[:20])]
    finding = only(sides.overlap(look(honest, {"valid": [*unseen[:80], *other_targets]})))
    assert "20 % of the sources of data.valid" in finding.text
    assert "{split: N}" in finding.text


def test_overlap_of_targets_alone(honest: list[Pair], unseen: list[Pair]) -> None:
    """References that stand in the training text with another source; everyday phrases do not count."""
    known = [tgt for _, tgt in honest if len(tgt.split()) > 5]
    fresh = [(f"anew {at}", f"neu gesagt wird es hier {at}") for at in range(64)]
    held = [*fresh, *((f"other {at}", tgt) for at, tgt in enumerate(known[:36]))]
    finding = only(sides.overlap(look(honest, {"test": held})))
    assert finding.severity == "warning"
    assert "0 % of the sources of data.test and 36 % of its targets stand in the training text too" in finding.text
    few = [*fresh, *((f"other {at}", tgt) for at, tgt in enumerate(known[:3]))]
    finding = only(sides.overlap(look(honest, {"test": few})))
    assert (finding.severity, "4.5 % of its targets" in finding.text) == ("note", True)
    short = [("Hello!", "Guten Tag!"), ("Good day!", "Guten Tag!"), ("Yes.", "Ja.")]
    assert list(sides.overlap(look([("Hi.", tgt) for _, tgt in short], {"test": short}))) == []


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("side", ["source", "target"])
def test_sides_shifted_by_some_lines(shift: int, side: str, honest: list[Pair]) -> None:
    columns = [[pair[0] for pair in honest], [pair[1] for pair in honest]]
    # Extra lines in front of a side: it has to move up.
    longer = columns[side == "target"]
    longer[:0] = ["An extra line of the file."] * shift
    finding = only(sides.alignment(look(zip(*columns, strict=False))))
    assert f"after the {side} is moved up by {'a line' if shift == 1 else f'{shift} lines'}" in finding.text


def test_a_line_lost_in_the_middle(honest: list[Pair]) -> None:
    src, tgt = [pair[0] for pair in honest], [pair[1] for pair in honest]
    del tgt[1200]
    finding = only(sides.alignment(look(zip(src, tgt, strict=False))))
    assert "about pair 1,501 on" in finding.text
    assert "source is moved up by a line" in finding.text


def test_sides_at_random(honest: list[Pair]) -> None:
    targets = [pair[1] for pair in honest]
    random.Random(1).shuffle(targets)
    finding = only(sides.alignment(look(zip([pair[0] for pair in honest], targets, strict=True))))
    assert "nothing to do with each other" in finding.text


def test_lengths_that_cannot_tell_say_nothing() -> None:
    fixed = [("abcdef", "123456")] * 300
    assert list(sides.alignment(look(fixed))) == []
    assert list(sides.alignment(look([("a" * at, "b" * (40 - at)) for at in range(1, 40)]))) == []


def test_languages(honest: list[Pair]) -> None:
    russian = [("Собака спит в доме и видит сон.", tgt) for _, tgt in honest[:200]]
    wrong = only(sides.languages(look(russian), "en", "de"))
    assert "data.src_lang is en, written in Latin letters, but the text is in Cyrillic" in wrong.text
    # Both sides swapped is what the check of the direction says.
    assert list(sides.languages(look(russian), "de", "ru")) == []
    assert list(sides.languages(look(russian), "ru", "de")) == []
    assert list(sides.languages(look(russian), "src", "tgt")) == []
    untranslated = with_first(russian, {at: (russian[at][0], russian[at][0] + "!") for at in range(10)})
    assert "5 % of the targets are written in Cyrillic" in only(sides.languages(look(untranslated), "ru", "de")).text


@pytest.mark.parametrize(
    ("sentence", "script"),
    [
        ("hello", "Latin"),
        ("Grüße", "Latin"),
        ("Привет, Bob", "Cyrillic"),
        ("漢字かな", "Chinese or Japanese"),
        ("1 + 2", None),
    ],
)
def test_scripts(sentence: str, script: str | None) -> None:
    assert script_of(sentence) == script


def test_scripts_of_language_codes() -> None:
    codes = {"rus_Cyrl": "Cyrillic", "zh-Hant": "Chinese or Japanese", "srp_Latn": "Latin", "sr": None, "xx": None}
    assert {code: script_of_language(code) for code in codes} == codes


@given(count=st.integers(0, 3000), block=st.integers(1, 20), most=st.integers(1, 30))
def test_the_sample_is_spread_evenly_and_bounded(count: int, block: int, most: int) -> None:
    from dragoman.preflight import survey as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        patch.setattr(module, "_MOST_BLOCKS", most)
        seen = look([(f"a{at}", f"b{at}") for at in range(count)])
    assert seen.read == count
    assert seen.size <= most * block
    assert all(pair == (f"a{number - 1}", f"b{number - 1}") for number, pair in seen.numbered())
    starts = [one.start for one in seen.blocks]
    assert len({right - left for left, right in itertools.pairwise(starts)}) <= 1
    # At least half of what would fit is used.
    assert seen.size >= min(count, most * block // 2 - block)


def test_the_reading_ends_where_it_should(honest: list[Pair]) -> None:
    seen = look(honest, most=1500)
    assert not seen.complete
    assert seen.extent() == "the first 1,500 pairs"
    assert look(honest, most=2000).complete


@pytest.mark.parametrize(("share", "shown"), [(0.034, "3.4 %"), (0.00012, "0.012 %"), (1.0, "100 %"), (0.5, "50 %")])
def test_shares(share: float, shown: str) -> None:
    assert share_text(share) == shown


def test_what_makes_sentences_the_same() -> None:
    same: Callable[[str, str], bool] = lambda left, right: key(left) == key(right)  # noqa: E731
    assert same("Ein  Haus ", "ein haus")
    assert same("über", unicodedata.normalize("NFD", "Über"))
    assert not same("Haus", "Maus")
