"""Writing files so that a crash leaves either the old content or the new, never half of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from dragoman.errors import DragomanError

# Windows has no SIGHUP.
_KEPT = ("SIGINT", "SIGTERM", "SIGHUP")


def _refuse(path: Path, error: OSError) -> DragomanError:
    reason = error.strerror or error.__class__.__name__
    return DragomanError(f"cannot write {path}: {reason}; choose a place that is writable.")


def _permissions() -> int:
    """The mode a plain ``open`` would give a new file (``mkstemp`` alone always makes it private)."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` and rename it over ``path`` when the block ends without error.

    Until then ``name`` of the stream is the temporary file's. ``mode`` is ``"w"`` (UTF-8 text, line feeds kept) or
    ``"wb"``. A symbolic link stays, what it leads to is written; a file that was there keeps its permissions.
    Raises :class:`DragomanError` where the place cannot be written.
    """
    path = Path(path)
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise _refuse(path, error) from error
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(name, mode, **text) as stream:  # type: ignore[call-overload]  # mode is not a literal
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, stat.S_IMODE(path.stat().st_mode) if path.is_file() else _permissions())
        os.replace(name, path)
    except OSError as error:
        raise _refuse(path, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


@contextlib.contextmanager
def signals_kept() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP until the block ends.

    Some libraries turn what a handler raises into their errors. For blocks that end soon. Signals that Python does not
    handle, and other threads, are left as they are.
    """
    before: dict[int, Any] = {}
    came: list[tuple[int, Any]] = []
    if threading.current_thread() is threading.main_thread():
        for number in (int(signal.Signals[name]) for name in _KEPT if name in signal.Signals.__members__):
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda *seen: came.append(seen))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number, frame in came[:1]:
        before[number](number, frame)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_file(path) as stream:
        stream.write(text)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; it takes the place of ``path`` when the block ends without error.

    An existing folder is replaced: it is renamed away, the new one renamed in, and the old one removed, so
    that the only moment without a folder lies between two renames.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    except OSError as error:
        raise _refuse(path, error) from error
    old = part.with_suffix(".old")
    try:
        yield part
        # What other libraries write (safetensors) may be private to the user: a model is as open as its folder.
        for inner in (part, *part.rglob("*")):
            os.chmod(inner, _permissions() | (0o111 if inner.is_dir() else 0))
        if path.exists():
            os.rename(path, old)
        os.rename(part, path)
    except OSError as error:
        raise _refuse(path, error) from error
    finally:
        if old.exists() and not path.exists():
            os.rename(old, path)
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
