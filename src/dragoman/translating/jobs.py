"""Texts made ready for a search: ids, limits, and the phrases that have to appear."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from dragoman.config import DecodeConfig, ModelConfig
from dragoman.decoding import Phrase
from dragoman.errors import ConfigError, DataError, Setting, nearest
from dragoman.text.scripts import in_word, is_unspaced
from dragoman.text.sentences import split_sentences
from dragoman.text.tokenizer import TokenizerPair
from dragoman.translating.asked import Request

logger = logging.getLogger("dragoman")

# First bytes of UTF-8 characters that are mostly letters of scripts with spaces, as byte-level vocabularies write them.
# Left out: C2 and E2 (signs), E3 to E9 (kana, ideographs), EE and EF (presentation forms), F0 on (pictures).
_LETTER_BYTES = frozenset(map(chr, [*range(0xC3, 0xE2), *range(0xEA, 0xEE)]))
# Tokenizers whose tokens are whole words, with nothing in them that says where spaces stand.
WHOLE_WORDS = ("wordlevel", "rules")


@dataclass(frozen=True)
class Job:
    """One text to translate, or a part of it: its place among the results, its line number (from 0), its ids.

    ``phrases`` have to appear; ``wanted`` are their texts, and ``impossible`` those of which no tokens can be made.
    ``gap`` is the white space between this part and the next.
    """

    place: int
    line: int
    source: list[int]
    prefix: list[int]
    phrases: tuple[Phrase, ...] = ()
    wanted: tuple[str, ...] = ()
    impossible: tuple[str, ...] = ()
    gap: str = ""


class Intake:
    """What a model of this shape, with these tokenizers, is given for a text.

    ``max_length`` is the model's: learned and table positions end there.
    """

    def __init__(self, shape: ModelConfig, tokenizers: TokenizerPair, max_length: int, bounded: bool) -> None:
        self.shape = shape
        self.tokenizers = tokenizers
        self.max_length = max_length
        self.bounded = bounded
        self.never = sorted({tokenizers.tgt.unk_id, shape.tgt_pad_id, shape.bos_id} - {shape.eos_id})
        self._most = max_length - len(self.with_special([]))

    def with_special(self, source: list[int]) -> list[int]:
        """Source ids with the special tokens that the model expects."""
        shape = self.shape
        return [shape.bos_id] * shape.src_bos + source + [shape.eos_id] * shape.src_eos

    def source(self, text: str, line: int = 0) -> list[int]:
        """Source ids without special tokens, cut where the model's positions end, with a warning."""
        return self._cut(self.tokenizers.src.encode(checked(text, line)), line)

    def _cut(self, ids: list[int], line: int) -> list[int]:
        if not self.bounded or len(ids) <= self._most:
            return ids
        logger.warning(
            "line %d has %d tokens and the model reads at most %d: the rest is left out; split it into sentences.",
            line + 1,
            len(ids),
            self._most,
        )
        return ids[: self._most]

    def parts(self, text: str, ids: list[int], line: int) -> list[tuple[str, list[int], str]]:
        """A text, its source ids, and no white space behind it; a longer one than the model's in runs of sentences.

        A sentence that is too long by itself is split between words, and a word that is too long inside of it.
        """
        if len(ids) <= self._most:
            return [(text, ids, "")]
        encode = self.tokenizers.src.encode
        runs, room = [""], self._most
        for sentence in (piece for whole in split_sentences(text) for piece in self._pieces_of(whole)):
            length = len(encode(sentence)) if sentence.strip() else 0
            if length > room and runs[-1].strip():
                runs.append("")
                room = self._most
            runs[-1] += sentence
            room -= length
        if len(runs) == 1:
            return [(text, self._cut(ids, line), "")]
        logger.warning(
            "line %d has %d tokens, more than the model's %d: it is translated in %d parts, split at sentence ends "
            "where there are any.",
            line + 1,
            len(ids),
            self._most,
            len(runs),
        )
        return [(run.strip(), self.source(run.strip(), line), run[len(run.rstrip()) :]) for run in runs]

    def _pieces_of(self, text: str) -> Iterator[str]:
        """``text`` in pieces that the model can read, halved as often as it takes: at the white space in the middle."""
        if len(text) < 2 or len(self.tokenizers.src.encode(text)) <= self._most:
            yield text
            return
        middle = len(text) // 2
        spaces = [found.end() for found in re.finditer(r"\S\s+(?=\S)", text)]
        at = min(spaces, key=lambda place: abs(place - middle), default=middle)
        yield from self._pieces_of(text[:at])
        yield from self._pieces_of(text[at:])

    def target(self, text: str, line: int = 0) -> list[int]:
        """Target ids without special tokens."""
        return self.tokenizers.tgt.encode(checked(text, line))

    def check_minimum(self, config: DecodeConfig) -> None:
        """Raises :class:`ConfigError` for a ``min_length`` that is above what the model's translations may have."""
        if config.min_length > self.max_length and (self.bounded or config.max_length is None):
            remedy = ("; lower it.",) if self.bounded else ("; lower it, or set ", Setting("max_length"), ".")
            has = f" {config.min_length} is above the {self.max_length} target tokens that this model writes at most"
            raise ConfigError(Setting("min_length"), has, *remedy)

    def longest(self, src_length: int, config: DecodeConfig) -> int:
        """The most target tokens for a source of so many tokens, special ones included."""
        limit = config.limit(src_length)
        return min(limit, self.max_length) if self.bounded or config.max_length is None else limit

    def limit(self, job: Job, config: DecodeConfig) -> int:
        """The most target tokens of a translation. Raises :class:`DataError` for a prefix that cannot be forced."""
        limit = self.longest(len(self.with_special(job.source)), config)
        if len(job.prefix) > limit:
            raise DataError(
                "the prefix of ",
                Setting(f"line {job.line + 1}"),
                f" has {len(job.prefix)} tokens, and its translation may have {limit}; shorten the prefix or raise ",
                Setting("max_length"),
                ".",
            )
        if config.renormalize and set(job.prefix).intersection(self.forbidden(config)):
            raise DataError(
                "the prefix of ",
                Setting(f"line {job.line + 1}"),
                " has a token that never comes by itself, to which ",
                Setting("renormalize"),
                " gives no probability; leave one of them out.",
            )
        return limit

    def forbidden(self, config: DecodeConfig) -> list[int]:
        """The ids that never come. Raises :class:`ConfigError` for a suppressed token that there is not."""
        return sorted({*self.never, *self.suppressed(config)})

    def suppressed(self, config: DecodeConfig) -> set[int]:
        """The ids of the tokens that ``suppress`` names: as a translation shows them, or as the vocabulary has them."""
        found: set[int] = set()
        for token in config.suppress:
            if token not in self._named:
                known = nearest(token, list(self._named))
                raise ConfigError(
                    Setting("suppress"),
                    f': "{token}" is no token of the target vocabulary{known}; '
                    "write tokens as a translation shows them.",
                )
            found |= self._named[token]
        if self.shape.eos_id in found:
            never = ": a translation without its end token never ends; leave that token out."
            raise ConfigError(Setting("suppress"), never)
        return found

    @cached_property
    def _pieces(self) -> list[str]:
        return self.tokenizers.tgt.tokens(range(self.tokenizers.tgt.vocab_size))

    @cached_property
    def _named(self) -> dict[str, set[int]]:
        """The ids that each name stands for."""
        named: dict[str, set[int]] = {}
        for names in (self._pieces, self.tokenizers.tgt.vocabulary()):
            for index, name in enumerate(names):
                named.setdefault(name, set()).add(index)
        return named

    @property
    def marks_spaces(self) -> bool:
        """Whether the target's tokens hold the spaces between words."""
        return self.tokenizers.tgt.kind not in WHOLE_WORDS

    @cached_property
    def starts(self) -> frozenset[int]:
        """The target ids that can only begin a word: they begin with a space, or are whole words."""
        if not self.marks_spaces:
            return frozenset(range(len(self._pieces)))
        return frozenset(index for index, piece in enumerate(self._pieces) if piece.startswith("▁"))

    @cached_property
    def _inner(self) -> frozenset[int]:
        """The target ids that go on with a word which ends right before them."""
        if not self.marks_spaces:
            return frozenset()
        special = {*self.never, self.shape.eos_id}
        firsts = enumerate(zip(self._pieces, self.tokenizers.tgt.vocabulary(), strict=True))
        return frozenset(
            index
            for index, (piece, name) in firsts
            if index not in special and (in_word(piece[:1] or " ") or (piece[:1] == "�" and name[:1] in _LETTER_BYTES))
        )

    def phrases(
        self, wanted: Iterable[str], config: DecodeConfig, line: int
    ) -> tuple[tuple[Phrase, ...], tuple[str, ...], tuple[str, ...]]:
        """The phrases of some target texts, the text of each, and the texts of which no tokens can be made.

        A text that is wanted twice has to appear twice. Raises :class:`DataError` for a blank one, and
        :class:`ConfigError` for one that needs a suppressed token.
        """
        wanted = Counter(wanted)
        if not wanted:
            return (), (), ()
        possible: list[str] = []
        phrases: list[Phrase] = []
        impossible: list[str] = []
        suppressed = self.suppressed(config)
        for text, count in wanted.items():
            forms = self._forms(text, line)
            if not forms:
                raise DataError(Setting(f"line {line + 1}"), ": a phrase that must appear is blank; leave it out.")
            able = tuple(form for form in forms if not set(form).intersection(self.never))
            free = tuple(form for form in able if not suppressed.intersection(form))
            if able and not free:
                clash = f' rules out a token of "{text}", which must appear; leave one of them out.'
                raise ConfigError(Setting("suppress"), clash)
            if free:
                inner = self._inner if in_word(text.rstrip()[-1]) else frozenset()
                phrases.append(Phrase(free, count, inner))
                possible.append(text)
            else:
                impossible += [text] * count
        return tuple(phrases), tuple(possible), tuple(impossible)

    def _forms(self, text: str, line: int) -> list[tuple[int, ...]]:
        """The ids of a target phrase: as at the start of a text, where our tokenizers put the same ids as inside.

        Where the script has no spaces, also as behind another character.
        """
        forms = [tuple(self.target(text.strip(), line))]
        if self.marks_spaces and is_unspaced((text.strip() or " ")[0]):
            before = self.target("。")
            inside = self.target("。" + text.strip(), line)
            if inside[: len(before)] == before:
                forms.insert(0, tuple(inside[len(before) :]))
        return [form for form in dict.fromkeys(forms) if form]

    def jobs(self, request: Request, config: DecodeConfig) -> list[Job]:
        """What there is to translate: the texts that hold more than white space, long ones in parts.

        Raises :class:`DataError` for constraints of a text that has to be split: nothing says where they belong.
        """
        jobs: list[Job] = []
        places = [place for place, text in enumerate(request.texts) if text.strip()]
        encoded = self.tokenizers.src.encode_batch([checked(request.texts[at], request.lines[at]) for at in places])
        for place, ids in zip(places, encoded, strict=True):
            line = request.lines[place]
            parts = self.parts(request.texts[place], ids, line)
            phrases = [] if request.phrases is None else list(request.phrases[place])
            if phrases and len(parts) > 1:
                raise DataError(
                    Setting(f"line {line + 1}"),
                    " is longer than the model reads at once, so that its constraints have no "
                    "place; split it into sentences, or give terms.",
                )
            start = [] if request.prefixes is None else self.target(request.prefixes[place], line)
            for text, source, gap in parts:
                wanted = phrases + ([] if request.terms is None else request.terms.targets(text))
                jobs.append(Job(place, line, source, start, *self.phrases(wanted, config, line), gap))
                start = []
        prefixes = request.prefixes or [""] * len(request.texts)
        dropped = sum(bool(prefix) and not text.strip() for prefix, text in zip(prefixes, request.texts, strict=True))
        if dropped:
            logger.warning("blank texts stay empty though they have a target prefix: %d.", dropped)
        return jobs


def checked(text: str, line: int) -> str:
    """The text itself; raises :class:`DataError` for one that is not Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"line {line + 1} holds half of a surrogate pair at character {error.start + 1}; give whole characters."
        ) from None
    return text
