"""Weights of other implementations, in and out; each format is a table of keys in a file of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.bundle import Bundle, load_bundle
from dragoman.config import ModelConfig
from dragoman.errors import ConversionError, nearest
from dragoman.interop import (
    annotated,
    ctranslate2,
    hkproj,
    hyunwoongko,
    labml,
    marian,
    marian_folder,
    native,
    nn_transformer,
    read,
    valid_len,
    write,
)
from dragoman.interop.checkpoint import state_dict_of
from dragoman.interop.format import Format
from dragoman.interop.load import Foreign, folder_format, load_weights, refuse_facts
from dragoman.interop.save import Saved, refuse_place, save_folder, save_weights
from dragoman.interop.weights import SUFFIXES, read_weights
from dragoman.interop.write import ExportPlan
from dragoman.model.transformer import Transformer

_FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (valid_len, hyunwoongko, labml, hkproj, annotated, nn_transformer, marian)
}
FORMATS: tuple[str, ...] = (native.NAME, *_FORMATS, ctranslate2.NAME)

__all__ = [
    "FORMATS",
    "ExportPlan",
    "Saved",
    "convert",
    "detect_format",
    "export_state_dict",
    "format_of",
    "import_state_dict",
    "load",
    "plan_export",
    "plan_save",
    "save",
]


def import_state_dict(
    format: str,  # noqa: A002 (the word that the commands use too)
    state_dict: Mapping[str, Any],
    dtype: torch.dtype = torch.float32,
    **facts: Any,
) -> Transformer:
    """The ordinary model that somebody's weights make, in evaluation mode.

    ``facts`` say what the weights cannot: ``n_heads`` always; ``variant``, ids, ``max_length`` and any other field
    of :class:`ModelConfig` where the format's default is not right. The caller's tensors are copied. Position
    tables are computed in ``dtype``. Raises :class:`ConversionError` that lists every missing and unused key,
    wrong shape and unsupported option together.
    """
    _check_type(dtype)
    if format == native.NAME:
        return native.read(state_dict, dtype, facts)
    return read.read(_format(format), state_dict, dtype, facts)


def export_state_dict(format: str, model: Transformer, **facts: Any) -> dict[str, Tensor]:  # noqa: A002
    """The state dict that the other implementation loads, in the model's type.

    ``facts`` name keys where the format leaves them open (``torch``: see :mod:`dragoman.interop.nn_transformer`).
    Raises :class:`ConversionError` with every reason why the model cannot be expressed.
    """
    if format == native.NAME:
        refuse_facts(format, facts)
        return native.write(model)
    return write.write(_format(format), model, facts)


def plan_export(format: str, config: ModelConfig, tokenizer: str | None = None) -> ExportPlan:  # noqa: A002
    """What an export of a model of this shape (with a ``tokenizer`` of this kind) would rewrite and refuse."""
    if format == native.NAME:
        return ExportPlan(format, (), ())
    way = ctranslate2.plan(config) if format == ctranslate2.NAME else write.plan(_format(format), config)
    if format != marian.FORMAT.name or tokenizer in (None, "sentencepiece"):
        return way
    return replace(way, refused=(*way.refused, marian_folder.kind_reason("text's", str(tokenizer))))


def plan_save(bundle: Bundle, format: str) -> ExportPlan:  # noqa: A002
    """As :func:`plan_export`, with what :func:`save` would refuse about the tokenizers."""
    if format == marian.FORMAT.name:
        return marian_folder.plan_folder(bundle.model.config, bundle.tokenizers)
    way = plan_export(format, bundle.model.config)
    if format != ctranslate2.NAME:
        return way
    return replace(way, refused=(*way.refused, *ctranslate2.refused_tokenizers(bundle)))


def detect_format(state_dict: Mapping[str, Any] | Iterable[str]) -> str:
    """The format of these weights (or of these keys), told from the keys.

    Raises :class:`ConversionError` where no format, or more than one, has such keys.
    """
    keys = list(state_dict_of(state_dict) if isinstance(state_dict, Mapping) else state_dict)
    signatures = {native.NAME: native.SIGNATURE, **{name: fmt.signature for name, fmt in _FORMATS.items()}}
    found = [name for name, signature in signatures.items() if any(re.search(signature, key) for key in keys)]
    if len(found) != 1:
        said = f"the keys are those of {' and '.join(found)}" if found else "no known format has these keys"
        raise ConversionError(f"{said}; say which it is: {', '.join(signatures)}.")
    return found[0]


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a model's folder or of a file of weights, told from what is in it.

    Raises :class:`ConversionError` where it cannot be told.
    """
    path = Path(path)
    return folder_format(path) or detect_format(read_weights(path))


def load(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    dtype: torch.dtype = torch.float32,
    **facts: Any,
) -> Bundle:
    """Somebody's model as a bundle: ``Translator(interop.load(...))`` translates with it.

    A file of weights needs facts: those of :func:`import_state_dict`, ``tokenizer`` or ``src_tokenizer`` and
    ``tgt_tokenizer`` (a tokenizer's file, or a list of words: .txt, one a line), ``src_lang`` and ``tgt_lang``. A
    folder (``dragoman``, ``marian``) says all about itself. Raises :class:`ConversionError`, for a damaged folder
    of ours :class:`BundleError`.
    """
    _check_type(dtype)
    read_in = _read(Path(path), format, dtype, dict(facts))
    return read_in if isinstance(read_in, Bundle) else read_in.bundle()


def save(
    model_dir: Bundle | str | os.PathLike[str],
    path: str | os.PathLike[str],
    format: str,  # noqa: A002
    **facts: Any,
) -> Saved:
    """Write a model directory (or a bundle) in another format, then read the result again and compare.

    Weights go into a file (.safetensors, else what ``torch.save`` writes), ``dragoman``, ``marian`` and
    ``ctranslate2`` into a folder. ``facts``: those of :func:`export_state_dict`; ``quantization`` for ctranslate2.
    Raises :class:`ConversionError` with every reason why the model cannot be expressed; then nothing is written.
    """
    bundle = model_dir if isinstance(model_dir, Bundle) else load_bundle(model_dir)
    return _write(bundle, Path(path), format, dict(facts))


def convert(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    to: str,
    format: str | None = None,  # noqa: A002
    **facts: Any,
) -> Saved:
    """:func:`load` and :func:`save` in one; weights go from file to file without tokenizers too.

    ``format`` is the source's. ``facts`` of the format to write go there, the others (those of a ``torch`` model
    as well) to the reading.
    """
    outward = _facts_of(to)
    refuse_place(Path(path))
    if Path(source).is_dir() and Path(source).resolve() in Path(path).resolve().parents:
        raise ConversionError(f"{path} lies in {source}, which is read; choose a place outside it.")
    if to == nn_transformer.FORMAT.name and _is_torch(Path(source), format):
        # What names keys in a model around nn.Transformer names them on both sides.
        facts = {**nn_transformer.stack_facts(state_dict_of(read_weights(Path(source)))), **facts}
        inward = facts
    else:
        inward = {name: value for name, value in facts.items() if name not in outward}
    read_in = _read(Path(source), format, torch.float32, inward)
    return _write(read_in, Path(path), to, {name: value for name, value in facts.items() if name in outward})


def _check_type(dtype: Any) -> None:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point or dtype.itemsize < 2:
        raise ConversionError(f"dtype is {dtype}, and a model computes in floating point; give torch.float32.")


def _facts_of(name: str) -> tuple[str, ...]:
    """The facts that writing a format takes."""
    if name == ctranslate2.NAME:
        return ("quantization",)
    return () if name == native.NAME else _format(name).facts


def _is_torch(source: Path, name: str | None) -> bool:
    return source.is_file() and (name or format_of(source)) == nn_transformer.FORMAT.name


def _read(path: Path, name: str | None, dtype: torch.dtype, facts: dict[str, Any]) -> Bundle | Foreign:
    """What stands at a path: a bundle, or weights with what was said about them."""
    if name == ctranslate2.NAME:
        raise ConversionError("ctranslate2 folders are written and not read: their weights are packed for its engine.")
    if name is not None and name != native.NAME:
        _format(name)
    folder = folder_format(path)
    if folder is None:
        name = name or detect_format(read_weights(path))
        fmt = None if name == native.NAME else _format(name)
        return load_weights(path, fmt, dtype, facts)
    if name not in (None, folder):
        raise ConversionError(f"{path} is a {folder} folder and not one of {name}; leave the format out.")
    if folder == native.NAME:
        refuse_facts(folder, facts)
        return load_bundle(path, dtype=dtype)
    return marian_folder.load_folder(path, facts, dtype)


def _write(source: Bundle | Foreign, path: Path, name: str, facts: dict[str, Any]) -> Saved:
    refuse_place(path)
    if name in (native.NAME, marian.FORMAT.name, ctranslate2.NAME) and path.suffix not in SUFFIXES:
        bundle = source if isinstance(source, Bundle) else source.bundle()
        return save_folder(name, bundle, path, facts)
    return save_weights(None if name == native.NAME else _format(name), source.model, path, facts)


def _format(name: str) -> Format:
    if name == ctranslate2.NAME:
        raise ConversionError(
            "ctranslate2 models are folders and no state dicts; write one with interop.save, or with dragoman convert "
            "to a name without a suffix."
        )
    if name not in _FORMATS:
        raise ConversionError(
            f'no format is called "{name}"{nearest(name, list(FORMATS))}; there are {", ".join(FORMATS)}.'
        )
    return _FORMATS[name]
