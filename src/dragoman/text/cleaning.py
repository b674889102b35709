"""Which training pairs are kept, and how many were dropped why. Validation and test text is never cleaned."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class DropCounts:
    """Pairs kept and dropped; each dropped pair is counted once, under the first reason that fits."""

    kept: int = 0
    empty: int = 0
    too_long: int = 0
    over_ratio: int = 0

    @property
    def total(self) -> int:
        """Pairs read."""
        return self.kept + self.dropped

    @property
    def dropped(self) -> int:
        """Pairs left out."""
        return self.empty + self.too_long + self.over_ratio

    def table(self) -> str:
        """The counts as lines of text, with shares of all pairs read."""
        names = {"kept": "kept", "empty": "empty", "too_long": "too long", "over_ratio": "over the length ratio"}
        return "\n".join(
            f"{names[key]:<22}{count:>12,}{100 * count / max(1, self.total):>8.2f} %"
            for key, count in asdict(self).items()
        )


class Cleaner:
    """Decides by the token counts of both sides, special tokens not counted."""

    def __init__(self, max_length: int, max_ratio: float) -> None:
        self.max_length = max_length
        self.max_ratio = max_ratio
        self.counts = DropCounts()

    def keeps(self, src_length: int, tgt_length: int) -> bool:
        """Whether a pair stays in training; counts it either way."""
        shorter, longer = sorted((src_length, tgt_length))
        if shorter == 0:
            self.counts.empty += 1
        elif longer > self.max_length:
            self.counts.too_long += 1
        elif longer > self.max_ratio * shorter:
            self.counts.over_ratio += 1
        else:
            self.counts.kept += 1
            return True
        return False
