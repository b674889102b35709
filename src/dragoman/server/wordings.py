"""The translations of sentences, with the links of the words of those that have tags inside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.server.inline import Links
from dragoman.server.limits import Limits
from dragoman.server.queue import Sentence
from dragoman.translation import Translation


@dataclass(frozen=True)
class Wording:
    """A translation of a sentence; ``links`` of its words are known where it has tags inside it."""

    translation: Translation
    links: Links | None = None


class Wordings:
    """All translations of translated sentences, best first.

    ``pairs`` are the sentences and translations whose words are to be linked: of those with tags inside them, unless
    they are too long, as many as ``limits`` allow; the best of all sentences come before any second one.
    """

    def __init__(self, sentences: Sequence[Sentence], limits: Limits) -> None:
        self._every: list[list[Wording]] = []
        for sentence in sentences:
            assert sentence.found is not None
            self._every.append([Wording(one) for one in (sentence.found, *sentence.found.alternatives)])
        most = limits.attention_tokens
        places = [
            (n, at)
            for at, (sentence, own) in enumerate(zip(sentences, self._every, strict=True))
            if sentence.tagged and max(sentence.tokens, *(len(one.translation.ids) for one in own)) <= most
            for n in range(len(own))
        ]
        self._places = sorted(places)[: limits.linked]
        self.pairs = [(sentences[at].text, self._every[at][n].translation) for n, at in self._places]

    def with_links(self, links: Sequence[Links]) -> list[list[Wording]]:
        """Those of each sentence, with the links of each of ``pairs``."""
        for (n, at), own in zip(self._places, links, strict=True):
            self._every[at][n] = replace(self._every[at][n], links=own)
        return self._every
