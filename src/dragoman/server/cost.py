"""What a request may cost: the tokens that the search for its translations has to make, and may make."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.config import DecodeConfig
from dragoman.server.queue import Sentence
from dragoman.translating.jobs import Intake

# What a translation seldom goes beyond, however long it may be: the limit of our own settings.
_ORDINARY = DecodeConfig()
# Of a limit that is above that, one part in so many is charged: most translations end long before it.
_PART = 4


def width_of(config: DecodeConfig) -> int:
    """The hypotheses that a search has of each sentence."""
    return config.n_best if config.sample else config.beam_size


def weigh(sentences: Sequence[Sentence], intake: Intake, config: DecodeConfig) -> int:
    """Write down how long each translation has to be and may be; returns what they are charged, all together.

    That is target tokens, those of every hypothesis. Tokens that have to come are charged in full. Of those that may
    come, as many as for an ordinary translation, or a part of the limit where that is more. To link the words of a
    translation costs as much as one hypothesis of it.
    """
    charge = 0
    for sentence in sentences:
        sentence.most = intake.longest(sentence.tokens, config)
        sentence.least = min(sentence.most, config.least(sentence.tokens, sentence.most))
        ordinary = min(sentence.most, _ORDINARY.limit(sentence.tokens))
        passes = width_of(config) * (1 + sentence.phrases) + config.n_best * sentence.tagged
        charge += passes * max(sentence.least, ordinary, sentence.most // _PART)
    return charge


def is_light(config: DecodeConfig) -> bool:
    """Whether translations may be as short as an ordinary one: nothing makes a search for many of them a long one."""
    return config.min_length <= _ORDINARY.max_length_extra and config.min_length_ratio <= _ORDINARY.max_length_ratio
