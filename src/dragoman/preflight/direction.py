"""Which language stands on which side of each text: by what the configuration says, and by the other texts.

Of two languages in different scripts the letters decide, of others the commonest words (``text/languages.py``). Where
those of the languages are not known, texts are compared with each other: the commonest words of a side of one are
those of the same side of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from dragoman.preflight.finding import Finding
from dragoman.preflight.survey import Block, Pair, Survey
from dragoman.preflight.writing import script_of_language, script_of_many
from dragoman.text.languages import KNOWN, common_signs, language_of, signs

# Pairs of a text that are looked at, and the words that it takes to judge.
_MOST_PAIRS = 4_000
_LEAST_WORDS = 100
# Of the words of a text those that only one of two lists has: so many are needed of one, and so many times the
# other's. Text in the right language has 0.13 to 0.5 of its own and at most a seventh of that of another's; a hundred
# sentences of two or three words have 0.75 times as many (Multi30k, Tatoeba, Tanaka, FLORES, a Bible: six languages).
_LEAST_SHARE = 0.05
_CLEARLY = 3.0
# Of a language that nothing is compared with more is asked.
_LEAST_ALONE = 0.15
# The words of a text that are compared with another text's: with so many, names and topics do not matter.
_COMMONEST = 200


@dataclass(frozen=True)
class _Part:
    """Some pairs of a text; ``start`` is the number of the first. ``words`` of each side, with their counts."""

    start: int
    pairs: Sequence[Pair]
    words: tuple[Counter[str], Counter[str]]

    @classmethod
    def of(cls, start: int, pairs: Sequence[Pair]) -> _Part:
        """The part with its words counted."""
        src, tgt = (Counter(chain.from_iterable(signs(pair[side]) for pair in pairs)) for side in (0, 1))
        return cls(start, pairs, (src, tgt))


@dataclass(frozen=True)
class _Text:
    """The parts of ``data.NAME`` and which of them have their sides swapped."""

    name: str
    parts: Sequence[_Part]
    swapped: list[_Part] = field(default_factory=list)
    straight: list[_Part] = field(default_factory=list)

    def words(self, side: int) -> Counter[str]:
        """The words of one side of all parts."""
        return sum((part.words[side] for part in self.parts), Counter())

    @property
    def is_mixed(self) -> bool:
        """Whether some parts have their sides swapped and others not."""
        return bool(self.swapped and self.straight)

    @property
    def is_swapped(self) -> bool | None:
        """Whether all is swapped; None where that cannot be told."""
        return None if self.is_mixed or not (self.swapped or self.straight) else bool(self.swapped)


def direction(survey: Survey, held: Mapping[str, Sequence[Pair]], src_lang: str, tgt_lang: str) -> Iterator[Finding]:
    """Texts, or parts of the training text, whose sides are swapped; sides in another language than is said.

    ``held`` are the texts that do not come from the training text, by name.
    """
    texts = [_Text("train", _thinned(survey.blocks))]
    texts += [_Text(name, _thinned([Block(1, list(rows))])) for name, rows in held.items()]
    judge = _judge(src_lang, tgt_lang)
    for text in texts:
        for part in text.parts:
            turned = judge(part)
            if turned is not None:
                (text.swapped if turned else text.straight).append(part)
    yield from (_mixed(text, src_lang, tgt_lang) for text in texts if text.is_mixed)
    unclear = [text for text in texts if not (text.swapped or text.straight)]
    yield from _other_languages(unclear, src_lang, tgt_lang)
    yield from _swapped([text for text in texts if not text.is_mixed], src_lang, tgt_lang)


def is_swapped(pairs: Sequence[Pair], src_lang: str, tgt_lang: str) -> bool:
    """Whether a text's sources are in ``tgt_lang`` and its targets in ``src_lang``; False where that cannot be told."""
    judge = _judge(src_lang, tgt_lang)
    return any(judge(part) for part in _thinned([Block(1, list(pairs))]))


def _thinned(blocks: Sequence[Block]) -> list[_Part]:
    step = max(1, -(-sum(len(block.pairs) for block in blocks) // _MOST_PAIRS))
    return [_Part.of(block.start, block.pairs[::step]) for block in blocks]


def _nearer(words: Counter[str], lists: Sequence[frozenset[str]], least: float = _LEAST_SHARE) -> int | None:
    """Which of two lists the words of a text are on, 0 or 1; None where that is not clear."""
    total = words.total()
    if total < _LEAST_WORDS:
        return None
    shares = [sum(words[word] for word in one - other) / total for one, other in (lists, lists[::-1])]
    best = int(shares[1] > shares[0])
    return best if shares[best] >= max(least, _CLEARLY * shares[1 - best]) else None


def _judge(src_lang: str, tgt_lang: str) -> Callable[[_Part], bool | None]:
    """What says whether the sides of a part are swapped; None where it cannot be told."""
    scripts = script_of_language(src_lang), script_of_language(tgt_lang)
    if None not in scripts and scripts[0] != scripts[1]:

        def by_script(part: _Part) -> bool | None:
            src, tgt = (script_of_many(pair[side] for pair in part.pairs)[0] for side in (0, 1))
            return {scripts: False, scripts[::-1]: True}.get((src, tgt))

        return by_script
    lists = common_signs(language_of(src_lang)), common_signs(language_of(tgt_lang))
    # Of an unknown language nothing is found: its side is told by the absence of the other language.
    own = 0 if lists[0] else None, 1 if lists[1] else None
    least = _LEAST_SHARE if lists[0] and lists[1] else _LEAST_ALONE

    def by_words(part: _Part) -> bool | None:
        src, tgt = (_nearer(words, lists, least) for words in part.words)
        return {own: False, own[::-1]: True}.get((src, tgt)) if any(lists) else None

    return by_words


def _mixed(text: _Text, src_lang: str, tgt_lang: str) -> Finding:
    few = min(text.swapped, text.straight, key=len)
    of, first = len(text.swapped) + len(text.straight), few[0].start
    src, tgt = (tgt_lang, src_lang) if few is text.swapped else (src_lang, tgt_lang)
    return Finding(
        "warning",
        f"in {len(few)} of {of} blocks of neighbouring pairs of data.{text.name}, the first from about pair {first:,} "
        f"on, the source is in {src} and the target in {tgt}, and in the others it is the other way round; swap the "
        "sides there.",
    )


def _other_languages(texts: Sequence[_Text], src_lang: str, tgt_lang: str) -> Iterator[Finding]:
    """Sides in another language than the configuration says, where both that and the other one are known."""
    codes = src_lang, tgt_lang
    for side, name in enumerate(("source", "target")):
        by_language: dict[str, list[str]] = {}
        for text in texts:
            best = _commonest_language(text.words(side), language_of(codes[side]))
            # Of the training text sides.languages says what is in other letters.
            if best and (text.name != "train" or script_of_language(best) == script_of_language(codes[side])):
                by_language.setdefault(best, []).append(text.name)
        for best, names in by_language.items():
            yield Finding(
                "warning",
                f"the {name} of {_listed(names)} has the commonest words of {best}, and hardly any of {codes[side]}, "
                f"which data.{('src', 'tgt')[side]}_lang says; check the files and the code.",
            )


def _commonest_language(words: Counter[str], said: str) -> str | None:
    """The language that words are far more likely of than of ``said``; None where there is none, or nothing known."""
    own = common_signs(said)
    counts = {code: sum(words[word] for word in common_signs(code)) for code in KNOWN}
    best = max(counts, key=lambda code: counts[code])
    return best if own and _nearer(words, (own, common_signs(best)), _LEAST_ALONE) == 1 else None


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"data.{name}" for name in names)


def _crossed(text: _Text, reference: _Text) -> bool | None:
    """Whether the sides of a text have the words of the other side of ``reference``; None where it cannot be told."""
    lists = [frozenset(word for word, _ in reference.words(side).most_common(_COMMONEST)) for side in (0, 1)]
    src, tgt = (_nearer(text.words(side), lists) for side in (0, 1))
    return None if None in (src, tgt) or src == tgt else src == 1


def _swapped(texts: Sequence[_Text], src_lang: str, tgt_lang: str) -> Iterator[Finding]:
    """Texts that are swapped as a whole: against the languages that are set, or against the other texts."""
    known = {text.name: text.is_swapped for text in texts if text.is_swapped is not None}
    anchor = next((text for text in texts if text.name in known), texts[0] if texts else None)
    if anchor is None:
        return
    against = {text.name: crossed for text in texts if (crossed := _crossed(text, anchor)) is not None}
    if known:
        turned = {name: crossed != known[anchor.name] for name, crossed in against.items()} | known
        names = [text.name for text in texts if turned.get(text.name)]
        if names:
            yield Finding(
                "warning",
                f"the source of {_listed(names)} is in {tgt_lang} and the target in {src_lang}, the other way round "
                "than data.src_lang and data.tgt_lang say; swap src and tgt there, or the codes.",
            )
        return
    alike = [anchor.name, *(name for name, crossed in against.items() if not crossed and name != anchor.name)]
    others = [name for name, crossed in against.items() if crossed]
    if not others:
        return
    if len(alike) == len(others):
        yield Finding(
            "warning",
            f"the words of data.{others[0]}'s source stand in data.{alike[0]}'s target and the other way round; swap "
            f"src and tgt in the one of the two that has them wrong.",
        )
        return
    few, many = sorted((alike, others), key=len)
    yield Finding(
        "warning",
        f"the words of data.{few[0]}'s source stand in the target of {_listed(many)} "
        f"and the other way round; swap src and tgt in data.{few[0]}.",
    )
