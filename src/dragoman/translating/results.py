"""What a search found, as translations; and the parts of a long text put together again.

Shapes: H heads.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, length_norm
from dragoman.errors import DataError, Setting, some_of
from dragoman.model.transformer import Attention
from dragoman.text.tokenizer import Tokenizer
from dragoman.translating.asked import Request
from dragoman.translating.jobs import Intake, Job
from dragoman.translating.words import word_starts
from dragoman.translation import Translation

logger = logging.getLogger("dragoman")

# Phrases that a translation lacks which one sentence names.
_SHOWN = 5


class _Shown(dict[int, str]):
    """How a tokenizer shows each id, asked for once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def __missing__(self, index: int) -> str:
        (self[index],) = self.tokenizer.tokens([index])
        return self[index]


class Results:
    """Makes translations for the texts that an :class:`~dragoman.translating.jobs.Intake` took in."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.tokenizers = intake.tokenizers
        self._src, self._tgt = _Shown(intake.tokenizers.src), _Shown(intake.tokenizers.tgt)

    def of(self, job: Job, hypotheses: Sequence[Hypothesis]) -> Translation:
        """The first as a translation, the others as its alternatives."""
        src_tokens = [self._src[index] for index in self.intake.with_special(job.source)]
        best, *others = [self._translation(found, src_tokens, job) for found in hypotheses]
        best.alternatives = others
        return best

    def text(self, ids: Sequence[int]) -> str:
        """The text of target ids, with or without ``</s>`` at their end; what they have of a last character is left out
        where that is not whole."""
        end = len(ids) - (list(ids[-1:]) == [self.intake.shape.eos_id])
        return self.tokenizers.tgt.decode_whole(ids[:end])

    def empty(self, request: Request, config: DecodeConfig, *, strict: bool) -> list[Translation]:
        """An empty translation for each text.

        That of a blank text is all there will be of it, so that nothing that was asked for it is met: its prefix and
        its phrases stand in ``unmet``, and the phrases are told as :func:`say_unmet` does.
        """
        found = [Translation("") for _ in request.texts]
        for place, (text, line) in enumerate(zip(request.texts, request.lines, strict=True)):
            if text.strip():
                continue
            wanted = [] if request.phrases is None else list(request.phrases[place])
            self.intake.phrases(wanted, config, line)  # which refuses what no translation can be asked for
            say_unmet(wanted, line, strict=strict)
            prefix = "" if request.prefixes is None else request.prefixes[place]
            found[place].unmet = [*([prefix] if prefix.strip() else []), *wanted]
        return found

    def _translation(self, found: Hypothesis, src_tokens: list[str], job: Job) -> Translation:
        pieces = [self._tgt[index] for index in found.tokens]
        return Translation(
            text=self.text(found.tokens),
            score=found.score,
            logprob=found.logprob,
            tokens=pieces,
            src_tokens=src_tokens,
            finished=found.finished,
            ids=found.tokens,
            token_logprobs=found.token_logprobs,
            words=self._words(found, pieces),
            unmet=[*(job.wanted[place] for place in found.unmet), *job.impossible],
        )

    def _words(self, found: Hypothesis, pieces: list[str]) -> list[tuple[str, float]]:
        """Each word with its log-probability. White space by itself is no word: it counts for the one behind it."""
        end = len(pieces) - found.finished
        starts = word_starts(pieces[:end], self.intake.marks_spaces)
        words: list[tuple[str, float]] = []
        blank = 0.0
        for first, last in pairwise([*starts, end]):
            text = "".join(pieces[first:last]).replace("▁", " ").strip() if self.intake.marks_spaces else pieces[first]
            if "�" in text or "<0x" in text:
                decode = self.tokenizers.tgt.decode_whole if last == end else self.tokenizers.tgt.decode
                text = decode(found.tokens[first:last]).strip()
            value = math.fsum([blank, *found.token_logprobs[first:last]])
            blank = 0.0 if text else value
            if text:
                words.append((text, value))
        if blank and words:
            words[-1] = words[-1][0], words[-1][1] + blank
        return words

    def joined(self, parts: Sequence[tuple[Job, Translation]], config: DecodeConfig) -> Translation:
        """The translations of the parts of one text as one; its alternatives are those of the same place.

        One warning says how many of them stop where the model's translations end.
        """
        self._say_cut(parts, config)
        if len(parts) == 1:
            return parts[0][1]
        found = [translation for _, translation in parts]
        gaps = [job.gap for job, _ in parts[:-1]] + [""]
        whole = _put_together(found, gaps, config)
        alternatives = zip(*(translation.alternatives for translation in found), strict=False)
        whole.alternatives = [_put_together(others, gaps, config) for others in alternatives]
        maps = [translation.attention for translation in found if translation.attention is not None]
        if maps:
            whole.attention = _blocks(maps)
        return whole

    def _say_cut(self, parts: Sequence[tuple[Job, Translation]], config: DecodeConfig) -> None:
        intake, most = self.intake, self.intake.max_length
        cut = sum(
            not found.finished and len(found.ids) == most < config.limit(len(intake.with_special(job.source)))
            for job, found in parts
        )
        if not cut:
            return
        where = f"{most} tokens" + (f" in {cut} of its {len(parts)} parts" if len(parts) > 1 else "")
        remedy = "split it into sentences" + (" or set max_length" if not intake.bounded else "")
        logger.warning("line %d: the translation stops unfinished at %s; %s.", parts[0][0].line + 1, where, remedy)


def say_unmet(unmet: Sequence[str], line: int, *, strict: bool) -> None:
    """Warn of the phrases that a translation lacks, or raise :class:`DataError` where that is ``strict``."""
    lacking = some_of([f'"{text}"' for text in unmet], _SHOWN)
    if lacking and strict:
        raise DataError(
            "the translation of ", Setting(f"line {line + 1}"), f" cannot hold {lacking}; change the terms."
        )
    if lacking:
        logger.warning("line %d: the translation lacks %s.", line + 1, lacking)


def _put_together(found: Sequence[Translation], gaps: Sequence[str], config: DecodeConfig) -> Translation:
    logprob = math.fsum(one.logprob for one in found)
    ids = [token for one in found for token in one.ids]
    return Translation(
        text="".join(one.text + gap for one, gap in zip(found, gaps, strict=True)),
        score=logprob / length_norm(config, len(ids)),
        logprob=logprob,
        tokens=[token for one in found for token in one.tokens],
        src_tokens=[token for one in found for token in one.src_tokens],
        finished=all(one.finished for one in found),
        ids=ids,
        token_logprobs=[value for one in found for value in one.token_logprobs],
        words=[word for one in found for word in one.words],
        unmet=[text for one in found for text in one.unmet],
        parts=len(found),
    )


def _blocks(maps: Sequence[Attention]) -> Attention:
    """Attention in which every part attends to itself alone."""

    def together(kind: str) -> list[torch.Tensor]:
        layers = zip(*(getattr(one, kind) for one in maps), strict=True)
        # Untyped in torch.
        block_diag: Callable[..., torch.Tensor] = torch.block_diag
        return [torch.stack([block_diag(*heads) for heads in zip(*layer, strict=True)]) for layer in layers]

    return Attention(*(together(kind) for kind in ("encoder", "decoder", "cross")))
