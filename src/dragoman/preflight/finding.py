"""What a check says: one sentence, and how bad it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One sentence on what was found, with what to do.

    ``error``: training makes no sense so, or the model is broken. ``warning``: quality or time is likely lost.
    ``note``: worth knowing. ``ok``: nothing is wrong, and this is what was measured.
    """

    severity: Severity
    text: str


# What is checked, in a few words, and the check itself.
Check = tuple[str, Callable[[], Iterable[Finding]]]


@dataclass(frozen=True)
class Outcome:
    """A check that was made and what it found."""

    title: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return all(finding.severity == "ok" for finding in self.findings)


def share_text(share: float) -> str:
    """``0.034`` -> ``3.4 %``; two digits that say something, however small."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"
