"""How a translation could go on behind a given start: the likeliest next words, each with its best completion."""

from __future__ import annotations

import math
from dataclasses import replace

from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis
from dragoman.translating.jobs import Job
from dragoman.translating.searcher import Searcher
from dragoman.translating.words import word_starts

# Rounds of n tokens that are completed in search of n different words.
_ROUNDS = 4
# The likeliest tokens of all rounds are found by a beam as wide, which has a bound (``DecodeConfig.beam_size``).
MOST_WORDS = 1000 // _ROUNDS


def next_words(searcher: Searcher, job: Job, config: DecodeConfig, n: int, *, new_word: bool) -> list[Hypothesis]:
    """The best completions of the job's prefix that go on with ``n`` different words, likeliest first.

    The likeliest next tokens are completed, ``n`` at a time, until as many words have been seen. The word is the one
    that the token belongs to in the completion, as likely as its tokens are together; of two tokens that lead to the
    same word the better completion stays. ``new_word``: only tokens that begin a word.
    """
    intake = searcher.intake
    tokens = searcher.next_tokens(job, config, _ROUNDS * n, intake.starts if new_word else None)
    found: dict[str, Hypothesis] = {}
    likely: dict[str, float] = {}
    for first in range(0, len(tokens), n):
        for one in _completed(searcher, job, config, tokens[first : first + n]):
            pieces = intake.tokenizers.tgt.tokens(one.tokens)
            ends = [start for start in word_starts(pieces, intake.marks_spaces) if start > len(job.prefix)]
            end = min(ends, default=len(pieces))
            word = "".join(pieces[:end])
            if word not in found or found[word].score < one.score:
                found[word] = one
                likely[word] = math.fsum(one.token_logprobs[len(job.prefix) : end])
        if len(found) >= n:
            break
    return [found[word] for word in sorted(found, key=lambda word: -likely[word])[:n]]


def _completed(searcher: Searcher, job: Job, config: DecodeConfig, tokens: list[int]) -> list[Hypothesis]:
    """The best translation that goes on with each of the tokens; ``</s>`` ends it there and then."""
    eos = searcher.intake.shape.eos_id
    going = [replace(job, prefix=[*job.prefix, token]) for token in tokens if token != eos]
    found = [hypotheses[0] for hypotheses in searcher.search(going, config)] if going else []
    if eos in tokens:
        found[tokens.index(eos) : tokens.index(eos)] = searcher.scored([job.source], [[*job.prefix, eos]], config)
    return found
