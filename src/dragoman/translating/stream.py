"""Text that grows with its tokens: only what no later token can change is given out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_PART = "�"  # what decoding shows for a character of which bytes are missing


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
