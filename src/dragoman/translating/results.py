"""What a search found, as translations; and the parts of a long text put together again.

Shapes: H heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, length_norm
from dragoman.model.transformer import Attention
from dragoman.text.tokenizer import Tokenizer
from dragoman.translating.jobs import Intake, Job
from dragoman.translating.words import word_starts
from dragoman.translation import Translation


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
        """The text of target ids, with or without ``</s>`` at their end."""
        end = len(ids) - (list(ids[-1:]) == [self.intake.shape.eos_id])
        return self.tokenizers.tgt.decode(ids[:end])

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
                text = self.text(found.tokens[first:last]).strip()
            value = math.fsum([blank, *found.token_logprobs[first:last]])
            blank = 0.0 if text else value
            if text:
                words.append((text, value))
        if blank and words:
            words[-1] = words[-1][0], words[-1][1] + blank
        return words

    def joined(self, parts: Sequence[tuple[Job, Translation]], config: DecodeConfig) -> Translation:
        """The translations of the parts of one text as one; its alternatives are those of the same place."""
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
    )


def _blocks(maps: Sequence[Attention]) -> Attention:
    """Attention in which every part attends to itself alone."""

    def together(kind: str) -> list[torch.Tensor]:
        layers = zip(*(getattr(one, kind) for one in maps), strict=True)
        # Untyped in torch.
        block_diag: Callable[..., torch.Tensor] = torch.block_diag
        return [torch.stack([block_diag(*heads) for heads in zip(*layer, strict=True)]) for layer in layers]

    return Attention(*(together(kind) for kind in ("encoder", "decoder", "cross")))
