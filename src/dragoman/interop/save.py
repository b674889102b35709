"""A model out of dragoman: a file of weights or a folder, written whole or not at all, then read again and compared."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.bundle import Bundle, load_bundle, write_bundle
from dragoman.errors import ConversionError
from dragoman.files import atomic_folder
from dragoman.interop import check, ctranslate2, marian, marian_folder, native, nn_transformer, read, write
from dragoman.interop.format import Format
from dragoman.interop.load import refuse_facts
from dragoman.interop.weights import SUFFIXES, read_weights, written_weights
from dragoman.model.transformer import Transformer


@dataclass
class Saved:
    """What a conversion wrote: the rewritings in words, and for each check of the result its largest difference."""

    format: str
    path: Path
    steps: list[str] = field(default_factory=list)
    checks: dict[str, float] = field(default_factory=dict)


def refuse_place(path: Path) -> None:
    """Raise :class:`ConversionError` where something stands already; an empty folder does not count, a link does."""
    if path.is_symlink():
        raise ConversionError(f"{path} is a link; remove it, or choose another place.")
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ConversionError(f"{path} exists; remove it, or choose another place.")


def save_weights(fmt: Format | None, model: Transformer, path: Path, facts: dict[str, Any]) -> Saved:
    """A state dict of a format (None: our own) in a file, read again and compared before it takes its place."""
    name = native.NAME if fmt is None else fmt.name
    if path.suffix not in SUFFIXES:
        raise ConversionError(
            f"{path} would be a file of {name} weights; give it a name that ends with {', '.join(SUFFIXES)}."
        )
    if fmt is None:
        refuse_facts(native.NAME, facts)
        with written_weights(lambda: native.write(model), path) as part:
            checks = {"logits": check.largest_difference(model, _own_again(model, part))}
            refuse_place(path)
        return Saved(name, path, [], checks)
    with written_weights(lambda: write.write(fmt, model, facts), path) as part:
        checks = _compared(fmt, model, part, facts)
        refuse_place(path)
    return Saved(name, path, write.plan(fmt, model.config).steps, checks)


def _own_again(model: Transformer, path: Path) -> Transformer:
    told = {name: value for name, value in model.config if not name.endswith("_vocab_size")}
    return native.read(read_weights(path), model.output.weight.dtype, told)


def _compared(fmt: Format, model: Transformer, path: Path, facts: Mapping[str, Any]) -> dict[str, float]:
    """The largest differences between the model and what the file is read as; of ``torch`` the class itself too."""
    state = read_weights(path)
    told = check.reading_facts(fmt, model, facts)
    with warnings.catch_warnings():
        # The fault that a variant keeps was said when the model came in.
        warnings.simplefilter("ignore", UserWarning)
        again = read.read(fmt, state, model.output.weight.dtype, told)
    checks = {}
    if fmt.name != "torch" or "src_embedding" in facts:
        checks["logits"] = check.largest_difference(model, again)
    if fmt.name == "torch":
        prefixes = [nn_transformer.prefix_of(facts.get(stack, stack)) for stack in ("encoder", "decoder")]
        checks["nn.Transformer"] = check.torch_difference(again, _tensors(state), *prefixes)
    return checks


def _tensors(state: Mapping[str, Any]) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if isinstance(value, Tensor)}


def save_folder(name: str, bundle: Bundle, path: Path, facts: dict[str, Any]) -> Saved:
    """A model's folder, our own, Marian's or CTranslate2's, compared before it takes its place."""
    if name == native.NAME:
        refuse_facts(name, facts)
        with atomic_folder(path) as part:
            write_bundle(bundle, part, path)
            again = load_bundle(part, dtype=bundle.model.output.weight.dtype)
            checks = {"logits": check.largest_difference(bundle.model, again.model)}
            refuse_place(path)
        return Saved(name, path, [], checks)
    if name == marian.FORMAT.name:
        refuse_facts(name, facts)
        with atomic_folder(path) as part:
            marian_folder.save_folder(bundle, part)
            checks = {"logits": marian_folder.check_folder(bundle, part)}
            refuse_place(path)
        return Saved(name, path, write.plan(marian.FORMAT, bundle.model.config).steps, checks)
    quantization = facts.pop("quantization", None)
    if facts:
        raise ConversionError(f"ctranslate2 knows the fact quantization alone; leave out {', '.join(facts)}.")
    with atomic_folder(path) as part:
        ctranslate2.save_folder(bundle, part, quantization)
        checks = {"log-probabilities": ctranslate2.check_folder(bundle, part, quantization)}
        refuse_place(path)
    return Saved(name, path, ctranslate2.plan(bundle.model.config).steps, checks)
