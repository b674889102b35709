"""``dragoman doctor``: what is wrong with a configuration, a run or a model, before it costs days."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli import common
from dragoman.errors import DataError, UsageError

if TYPE_CHECKING:
    from dragoman.preflight.finding import Outcome

_MARKS = {"ok": "✓", "note": "·", "warning": "!", "error": "✗"}


def doctor(
    target: Annotated[
        Path, typer.Argument(metavar="CONFIG|RUN|MODEL", help="A configuration file, a run or a model directory.")
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="CONFIG: settings in place of the file's.")
    ] = None,
    src: Annotated[
        Path | None, typer.Option(metavar="FILE", help="MODEL, RUN: sentences to translate. Default: a run's own.")
    ] = None,
    ref: Annotated[Path | None, typer.Option(metavar="FILE", help="MODEL, RUN: their translations.")] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="CONFIG: about how long to take, training included.")] = 40.0,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads. Default: the configuration's, or all processors.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every check and finding as JSON.")] = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Look for what costs days: in a configuration and its text, in a run, in a model.

    Each finding is a sentence with what to do: ✗ an error, ! a warning, · a note; ✓ stands where nothing was found.
    The exit code is 1 where there are errors. Of a large text a sample is looked at. A configuration's model is
    trained for a moment, in memory. The checks that need no training run at the start of each training too.

    \b
    Example:
      dragoman doctor recipes/multi30k-en-de.yaml data.dir=multi30k
      dragoman doctor runs/demo
      dragoman doctor runs/demo/best --src test.en --ref test.de
    """
    if ref is not None and src is None:
        raise UsageError("--ref needs --src: give the sentences that it translates.")
    if not target.exists():
        raise DataError(f"{target} does not exist; give a configuration file, a run directory or a model directory.")
    # The libraries take seconds to load.
    common.logger.info("looking at %s", target)
    common.prepare_runtime(threads)
    from dragoman.doctor.examine import Examination, counts, examine

    sources = None if src is None else _lines(src)
    references = None if ref is None else _lines(ref)
    if sources is not None and references is not None and len(sources) != len(references):
        raise DataError(
            f"{src} has {len(sources):,} lines and {ref} has {len(references):,}; give files that belong line to line."
        )
    made = Examination(common.logger.info, seconds)
    # Last, as it is given in place of the file's.
    own = [f"train.threads={threads}"] if threads is not None and target.is_file() else []
    examine(target, [*(settings or []), *own], sources, references, made)
    found = counts(made.outcomes)
    if as_json:
        print(
            json.dumps({"target": str(target), **found, "checks": _fields(made.outcomes)}, ensure_ascii=False, indent=2)
        )
    else:
        for line in _text(made.outcomes):
            print(line)
        print(", ".join(f"{number} {name}{'s' * (number != 1)}" for name, number in found.items()))
    if found["error"]:
        sys.stdout.flush()
        raise typer.Exit(1)


def _lines(path: Path) -> list[str]:
    lines = list(common.read_text(str(path)))
    if not lines:
        raise DataError(f"{path} is empty; give a file with one sentence a line.")
    return lines


def _fields(outcomes: Iterable[Outcome]) -> list[dict[str, object]]:
    return [
        {
            "check": one.title,
            "passed": one.passed,
            "findings": [{"severity": finding.severity, "text": finding.text} for finding in one.findings],
        }
        for one in outcomes
    ]


def _text(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """A line a check that passed, with what was measured; else a line a finding below the check's name."""
    for one in outcomes:
        if one.passed:
            measured = "; ".join(finding.text for finding in one.findings)
            yield f"{_MARKS['ok']} {one.title}" + (f": {measured}" if measured else "")
            continue
        yield f"  {one.title}"
        for finding in one.findings:
            if finding.severity != "ok":
                yield f"{_MARKS[finding.severity]}   {finding.severity}: {finding.text}"
