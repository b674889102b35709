"""Every error that dragoman raises on purpose: one sentence each, with an exit code and an HTTP status.

A message says what is wrong, where (file and line, when there is one) and what to do about it.
The command line prints the message alone; the server sends it with ``http_status``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """The name of a setting inside an error's sentence: whoever gave the setting may know it by another one.

    The place of a text is such a name too: ``line 3``.

    ``name``: as Python has it; empty for the class that the settings belong to. ``shown``: how the sentence writes it
    where nobody has another name for it; None: as it is.
    """

    name: str
    shown: str | None = None

    def __str__(self) -> str:
        """The name where it has no other."""
        return self.name if self.shown is None else self.shown


class DragomanError(Exception):
    """Base of every error of ours. ``exit_code`` is for commands, ``http_status`` for the server.

    Its arguments, some of which may be a :class:`Setting`, make its sentence one after the other.
    """

    exit_code: int = 1
    http_status: int = 400

    def __str__(self) -> str:
        """The sentence."""
        return self.named({})

    def named(self, names: Mapping[str, str]) -> str:
        """The sentence, its settings called what ``names`` calls them; one that is not there keeps its name.

        It can be printed and sent, whatever it quotes: half of a surrogate pair is shown as an escape, ``\\ud800``.
        """
        own = (names.get(part.name, str(part)) if isinstance(part, Setting) else str(part) for part in self.args)
        return "".join(own).encode("utf-8", "backslashreplace").decode("utf-8")


class ConfigError(DragomanError):
    """A configuration that cannot be used: an unknown key, a value out of range, settings that contradict."""


class UsageError(DragomanError):
    """A command called the wrong way: options that exclude each other, a missing argument."""

    exit_code = 2


class DataError(DragomanError):
    """Text that cannot be read as asked: bad bytes, a missing column, files of unequal length."""


class BundleError(DragomanError):
    """A model directory or checkpoint that is missing, damaged or of another format."""

    http_status = 500


class ConversionError(DragomanError):
    """Weights of another implementation that cannot be read, or a model that one cannot express; lists every reason."""


class RunError(DragomanError):
    """A training run that cannot start, go on or be resumed."""

    http_status = 500


class ToldError(RunError):
    """Why a process of several ends, where the first one reports it: nobody need say it again."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def nearest(word: str, known: list[str], prefix: str = "") -> str:
    """`` (did you mean "x"?)`` for the known word closest to ``word``, or an empty string.

    ``prefix`` is shown before the known word and takes no part in the comparison. The closeness is that of
    :func:`difflib.get_close_matches`.
    """
    import difflib

    match = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f' (did you mean "{prefix}{match[0]}"?)' if match else ""


def some_of(items: Sequence[str], most: int, between: str = ", ") -> str:
    """The first ``most`` items and how many more there are: a sentence does not grow with what is wrong."""
    more = [f"and {len(items) - most:,} more"] if len(items) > most else []
    return between.join([*items[:most], *more])
