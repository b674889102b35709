"""A translation while it is made: pieces of text that nothing can change any more, and the whole at their end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis
from dragoman.errors import DataError
from dragoman.translating.jobs import Job
from dragoman.translating.results import Results
from dragoman.translating.searcher import Searcher
from dragoman.translation import Translation

Pieces = Generator[str, None, Translation]
_PART = "�"  # what decoding shows for a character of which bytes are missing


class Stream(Iterator[str]):
    """The pieces of one translation, each as soon as the search is sure of it; joined they are its text.

    The search runs while the next piece is asked for, and no further.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._whole: Translation | None = None

    def __next__(self) -> str:
        """The next piece, which is never empty. Raises what the search raises."""
        try:
            return next(self._pieces)
        except StopIteration as end:
            # A generator says its result once, and None from then on.
            self._whole = end.value or self._whole
            raise StopIteration from None

    @property
    def translation(self) -> Translation:
        """Everything that is known of the translation. Raises :class:`DataError` before the last piece was taken."""
        if self._whole is None:
            raise DataError("the translation is known when all of its pieces have been taken; take them first.")
        return self._whole

    def close(self) -> None:
        """End the search where it stands; there are no more pieces, and no translation."""
        self._pieces.close()


class Growing:
    """Gives out the text of target ids piece by piece; ``decode`` gives the text of ids (``</s>`` gives none)."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self.decode = decode
        self.given = ""

    def piece(self, ids: Sequence[int]) -> str:
        """What can be added now that the translation is sure to begin with ``ids``.

        A character that may still lack bytes waits, and so does a text that is not yet what was given out and more.
        """
        sure = self.decode(ids).rstrip(_PART)
        if not sure.startswith(self.given):
            return ""
        return self._give(sure)

    def rest(self, text: str) -> str:
        """What is left of the whole ``text``."""
        return self._give(text)

    def _give(self, text: str) -> str:
        piece = text[len(self.given) :]
        self.given = text
        return piece


def pieces_of(
    jobs: Sequence[Job],
    config: DecodeConfig,
    searcher: Searcher,
    results: Results,
    finished: Callable[[Job, list[Hypothesis]], Translation],
    empty: Translation,
) -> Pieces:
    """The pieces of one text, which ``jobs`` are the parts of, and its translation at the end.

    ``finished`` makes the translation of a part; ``empty`` is that of a text without parts.
    """
    found: list[tuple[Job, Translation]] = []
    for place, job in enumerate(jobs):
        search, growing = searcher.begin([job], config), Growing(results.text)
        for _ in searcher.running(search, [job], config):
            if piece := growing.piece(search.settled(0)):
                yield piece
        found.append((job, finished(job, search.results[0])))
        if piece := growing.rest(found[-1][1].text + (job.gap if place + 1 < len(jobs) else "")):
            yield piece
    return results.joined(found, config) if found else empty
