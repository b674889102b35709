"""Whether source and target belong together: repeats, copies, overlap with held-out text, alignment, scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.preflight.finding import Finding, share_text
from dragoman.preflight.survey import Block, Pair, Survey, key
from dragoman.preflight.writing import script_of, script_of_language, script_of_many

# Shares from which each is a warning. Two untranslated pairs in a hundred already cost quality (Khayrallah and Koehn
# 2018 measured 5 % and more); short everyday sentences repeat in every corpus.
_REPEATED = 0.10
_COPIED = 0.02
_OTHER_SCRIPT = 0.02
_SHARED_PAIRS = 0.02
_SHARED_SOURCES = 0.10
_SHARED_TARGETS = 0.10
# From this share of sources or targets on it is worth a note.
_SHARED_NOTE = 0.02

# Correlation of the sides' lengths (Gale and Church 1993 align by length alone). Translations have 0.6 and more, pairs
# at random 0; it needs some pairs, whose lengths differ.
_UNRELATED = 0.15
_RELATED = 0.45
_LEAST_PAIRS = 60
_LEAST_SPREAD = 0.15
_SHIFTS = (-3, -2, -1, 1, 2, 3)


def repeats(survey: Survey) -> Iterator[Finding]:
    """Pairs that come more than once."""
    share = survey.repeated / max(1, survey.read)
    if share >= _REPEATED:
        yield Finding(
            "warning",
            f"{share_text(share)} of {survey.read:,} training pairs repeat an earlier one; remove repeats, or make "
            "sure that their weight is wanted.",
        )


def copies(survey: Survey) -> Iterator[Finding]:
    """Targets that are their source; one word (a name, a number) may be."""
    copied = [number for number, (src, tgt) in survey.numbered() if len(src.split()) > 1 and key(src) == key(tgt)]
    share = len(copied) / max(1, survey.size)
    if share >= _COPIED:
        yield Finding(
            "warning",
            f"{share_text(share)} of the targets are their source untranslated, the first in pair {copied[0]:,}; drop "
            "those pairs, since a model soon learns to copy.",
        )


def overlap(survey: Survey) -> Iterator[Finding]:
    """Held-out pairs that stand in the training text."""
    for name, shared in survey.shared.items():
        pairs, sources = shared.pairs / max(1, shared.total), shared.sources / max(1, shared.total)
        targets = shared.targets / max(1, shared.total)
        if pairs < _SHARED_PAIRS and max(sources, targets) < _SHARED_NOTE:
            continue
        what = f"{share_text(sources)} of the sources of data.{name} and {share_text(targets)} of its targets"
        if pairs >= _SHARED_PAIRS:
            what = (
                f"{share_text(pairs)} of the pairs of data.{name}, {share_text(sources)} of its sources and "
                f"{share_text(targets)} of its targets"
            )
        if pairs < _SHARED_PAIRS and sources < _SHARED_SOURCES and targets < _SHARED_TARGETS:
            yield Finding("note", f"{what} stand in the training text too, without their other side.")
            continue
        yield Finding(
            "warning",
            f"{what} stand in the training text too, so its scores are too good; take them out of the "
            f"training text{', or hold out with data.valid: {split: N}' if name == 'valid' else ''}.",
        )


def _lengths(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Log-lengths in characters: [2, pairs]."""
    return np.log1p(np.array([[len(src.strip()), len(tgt.strip())] for src, tgt in pairs], np.float64).T)


def _correlation(src: NDArray[np.float64], tgt: NDArray[np.float64]) -> float:
    if min(src.std(), tgt.std()) < 1e-9:
        return 0.0
    return float(np.corrcoef(src, tgt)[0, 1])


def _shift(block: Block) -> tuple[float, int, float] | None:
    """Correlation as the block stands, the best shift, and the correlation then; None where nothing can be said."""
    full = [pair for pair in block.pairs if pair[0].strip() and pair[1].strip()]
    if len(full) < _LEAST_PAIRS:
        return None
    src, tgt = _lengths(full)
    if min(src.std(), tgt.std()) < _LEAST_SPREAD:
        return None
    # An empty line is part of the order of lines, so shifts are tried on the block as it is.
    src, tgt = _lengths(block.pairs)
    by_shift = {
        shift: _correlation(
            src[max(0, -shift) : len(src) - max(0, shift)], tgt[max(0, shift) : len(tgt) + min(0, shift)]
        )
        for shift in _SHIFTS
    }
    best = max(by_shift, key=lambda shift: by_shift[shift])
    return _correlation(src, tgt), best, by_shift[best]


def alignment(survey: Survey) -> Iterator[Finding]:
    """Sides that are shifted by some lines from somewhere on, or that do not belong together at all."""
    judged = [(block, found) for block in survey.blocks if (found := _shift(block)) is not None]
    if not judged:
        return
    shifted = [
        (block, shift) for block, (now, shift, then) in judged if now < _RELATED and then > max(_RELATED, now + 0.3)
    ]
    if shifted:
        block, shift = shifted[0]
        side = "target" if shift > 0 else "source"
        lines = "a line" if abs(shift) == 1 else f"{abs(shift)} lines"
        yield Finding(
            "warning",
            f"the lengths of the two sides match in {len(shifted)} of {len(judged)} blocks only after the {side} is "
            f"moved up by {lines}, from about pair {block.start:,} on; look for a lost or added line there and align "
            "the files again.",
        )
        return
    unrelated = [block for block, (now, _, _) in judged if now < _UNRELATED]
    if 2 * len(unrelated) > len(judged):
        yield Finding(
            "warning",
            f"the lengths of source and target have nothing to do with each other in {len(unrelated)} of "
            f"{len(judged)} blocks of neighbouring pairs; check that the two sides are of the same text and in the "
            "same order.",
        )


def languages(survey: Survey, src_lang: str, tgt_lang: str) -> Iterator[Finding]:
    """Scripts that are not those of the languages set, and sentences in the other side's script."""
    found = [script_of_many(pair[side] for pair in survey.pairs()) for side in (0, 1)]
    scripts = [script for script, _ in found]
    expected = [script_of_language(src_lang), script_of_language(tgt_lang)]
    wrong = [
        (name, code, want, got)
        for name, code, want, got in zip(("src", "tgt"), (src_lang, tgt_lang), expected, scripts, strict=True)
        if want is not None and got is not None and want != got
    ]
    if len(wrong) == 2 and expected == scripts[::-1]:
        # They are swapped, which direction.py says.
        return
    for name, code, want, got in wrong:
        yield Finding(
            "warning",
            f"data.{name}_lang is {code}, written in {want} letters, but the text is in {got}; check the files or the "
            "code.",
        )
    if None in scripts or scripts[0] == scripts[1]:
        return
    for name, other, side in (("sources", scripts[1], 0), ("targets", scripts[0], 1)):
        share = sum(script_of(pair[side]) == other for pair in survey.pairs()) / max(1, survey.size)
        if share >= _OTHER_SCRIPT:
            yield Finding(
                "warning",
                f"{share_text(share)} of the {name} are written in {other} letters, as the other side is; drop pairs "
                "that were not translated, or whose sides are swapped.",
            )
