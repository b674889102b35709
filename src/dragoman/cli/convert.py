"""``dragoman convert``: models of other implementations, in and out."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli import common

if TYPE_CHECKING:
    from dragoman.interop import Saved


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A model directory, a Marian folder or a file of weights.")
    ],
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="The folder or file to write; it must not exist yet.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Facts that the source cannot tell, such as n_heads=8."),
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="The format to write.")] = "",
    source_format: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="The source's format. Default: told from its keys.")
    ] = None,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Convert a model from one format to another, then read the result again and compare what it computes.

    Formats: dragoman valid_len hyunwoongko labml hkproj annotated torch marian ctranslate2 (written only).
    dragoman, marian and ctranslate2 are folders with tokenizers; the others are files of weights. From those to a
    folder, src_tokenizer=FILE and tgt_tokenizer=FILE (or tokenizer=FILE) go with them. Other facts are n_heads=N,
    src_lang=, tgt_lang=, and any setting of a model's configuration.

    \b
    Example:
      dragoman convert opus-mt-de-en runs/de-en --to dragoman
      dragoman convert runs/demo/best demo.ct2 --to ctranslate2 quantization=int8
      dragoman convert tmodel_09.pt runs/en-it --to dragoman n_heads=8 src_tokenizer=en.json tgt_tokenizer=it.json
    """
    from dragoman.configfile import parse_settings
    from dragoman.errors import UsageError

    if not to:
        raise UsageError("the format to write is missing; give it with --to, for example --to dragoman.")
    facts = parse_settings(settings or [])
    common.prepare_runtime(None)
    from dragoman import interop

    name = source_format or interop.format_of(source)
    if source_format is None:
        common.logger.info("%s: told from its keys, this is %s.", source, name)
    with _warnings_logged():
        saved = interop.convert(source, dest, to, name, **facts)
    print(_report(saved, name))


@contextlib.contextmanager
def _warnings_logged() -> Iterator[None]:
    """Warnings are lines of the log: where in the code they come from helps nobody here."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: common.logger.warning("%s", message)
        yield


def _report(saved: Saved, source_format: str) -> str:
    lines = [f"{saved.path}: {source_format} -> {saved.format}"]
    lines += [f"  rewritten exactly: {step}" for step in saved.steps]
    for what, difference in saved.checks.items():
        lines.append(f"  read again, largest difference of the {what}: {difference:.1e}")
    return "\n".join(lines)
