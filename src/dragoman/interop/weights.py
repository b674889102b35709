"""Files of weights: safetensors, and what ``torch.save`` wrote, read without running anything in it."""

from __future__ import annotations

import contextlib
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from dragoman.bundle import read_tensors
from dragoman.errors import BundleError, ConversionError
from dragoman.files import atomic_file, signals_kept

# Weights shrink by a tenth; only a file of hardly anything but zeros unpacks to more than this times its size.
_EXPANSION = 100
# An archive that unpacks to less than this, in bytes, is never refused; its list of names and shapes is beyond it.
_LARGEST_INDEX = 1 << 26

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


def read_weights(path: Path) -> Mapping[str, Any]:
    """The mapping in a file, mapped into memory where the file allows it.

    Raises :class:`ConversionError` for a file that is unreadable, or that holds more than tensors and plain values.
    """
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise ConversionError(f"cannot read {path}: {reason}; give a file of weights.") from None
    if start[8:] == b"{":  # the length of a header, and the header
        try:
            return read_tensors(path)
        except BundleError as error:
            raise ConversionError(str(error)) from None
    if not start.startswith((b"PK\x03\x04", b"\x80")):  # a zip archive, or a pickle as torch.save wrote before
        raise ConversionError(f"{path} is no file of weights; give what torch.save wrote, or a safetensors file.")
    # Files of old, which are no zip archives, cannot be mapped.
    mapped = start.startswith(b"PK") and _is_stored(path)
    try:
        with warnings.catch_warnings():
            # PyTorch warns of pickle protocols that it reads all the same.
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, SafetensorError) as error:
        raise ConversionError(_reason(path, error)) from None
    except (LookupError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConversionError(_reason(path, error)) from None
    if not isinstance(content, Mapping):
        raise ConversionError(
            f"{path} holds a {type(content).__name__} and no mapping of names to tensors; "
            "save model.state_dict() and give that file."
        )
    return content


def _is_stored(path: Path) -> bool:
    """Whether the records of an archive lie in it as they are: PyTorch would map compressed bytes as numbers.

    Raises :class:`ConversionError` for an archive that is damaged, or that is made to fill the memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            records = archive.infolist()
    except (OSError, ValueError, RuntimeError, struct.error, zipfile.BadZipFile) as error:
        raise ConversionError(_reason(path, error)) from None
    whole = sum(record.file_size for record in records)
    index = max((record.file_size for record in records if record.filename.endswith(".pkl")), default=0)
    if whole > max(_EXPANSION * path.stat().st_size, _LARGEST_INDEX) or index > _LARGEST_INDEX:
        raise ConversionError(
            f"{path} would unpack to {whole / 1e6:.0f} MB from {path.stat().st_size / 1e6:.1f}, as no file of weights "
            "does; save model.state_dict() anew and give that file."
        )
    return all(record.compress_type == zipfile.ZIP_STORED for record in records)


def _reason(path: Path, error: Exception) -> str:
    if "weights only" in str(error).lower().replace("_", " "):
        return (
            f"{path} holds Python objects beside its tensors, and running them is not safe; where you trust it, "
            "load it yourself, save model.state_dict() and give that file."
        )
    return f"{path} is no file of weights, or is damaged ({type(error).__name__}); copy it again."


@contextlib.contextmanager
def written_weights(make: Callable[[], Mapping[str, Tensor]], path: Path) -> Iterator[Path]:
    """Write the state dict that ``make`` gives: safetensors, or for any other suffix as ``torch.save`` does.

    The block sees the file under a temporary name, the state dict being gone from memory; it takes the place of
    ``path`` when the block ends without error.
    """
    with atomic_file(path, "wb") as stream:
        part = Path(stream.name)
        if path.suffix == ".safetensors":
            try:
                save_file(dict(make()), part)
            except SafetensorError as error:
                raise ConversionError(f"cannot write {path}: {error}; make room for it.") from None
        else:
            state = dict(make())
            try:
                with signals_kept():
                    torch.save(state, stream)
                    stream.flush()
            except RuntimeError:  # what PyTorch makes of a full disk, in words of its own
                raise ConversionError(f"cannot write {path}: only a part of it went in; make room for it.") from None
            finally:
                del state
        yield part
