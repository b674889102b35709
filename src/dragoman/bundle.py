"""The model directory: all that is needed to translate. This file alone knows its layout.

``config.json``, ``model.safetensors``, the tokenizer's files, ``decode.json`` and ``README.md`` (the model card).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dragoman.config import DecodeConfig, ModelConfig
from dragoman.errors import BundleError, DragomanError, some_of
from dragoman.explain import explain
from dragoman.fields import Config
from dragoman.files import atomic_folder, signals_kept, write_json, write_text
from dragoman.model.transformer import Transformer
from dragoman.text.tokenizer import TokenizerPair

FORMAT_VERSION = 1

# Beyond this a max_length is a slip: a table of so many positions would not fit into memory.
MOST_POSITIONS = 1 << 24

# Misfits between a weights file and its configuration that one error names.
_SHOWN = 4

C = TypeVar("C", bound=Config)


@dataclass
class Bundle:
    """A model with its tokenizers, its default way to decode, its languages and its card (Markdown)."""

    model: Transformer
    tokenizers: TokenizerPair
    decode: DecodeConfig
    src_lang: str = "src"
    tgt_lang: str = "tgt"
    card: str = ""


def unique_weights(model: torch.nn.Module) -> dict[str, Tensor]:
    """The state dict with each tied matrix once, under the first of its names."""
    shared = {id(tensor): name for name, tensor in reversed(list(model.state_dict(keep_vars=True).items()))}
    return {
        name: tensor.detach() for name, tensor in model.state_dict(keep_vars=True).items() if shared[id(tensor)] == name
    }


def check_weights(model: torch.nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Raise :class:`BundleError` where ``weights`` are not those of ``model``: each name once, each of its shape.

    The error lists every misfit (of many, the first few).
    """
    wanted = unique_weights(model)
    problems = [f"{name} is missing" for name in wanted if name not in weights]
    problems += [f"{name} is unknown" for name in weights if name not in wanted]
    for name, expected in ((name, list(tensor.shape)) for name, tensor in wanted.items() if name in weights):
        found = weights[name]
        if list(found.shape) != expected:
            problems.append(f"{name} has shape {list(found.shape)}, not {expected}")
        elif not found.is_floating_point():
            problems.append(f"{name} is of type {str(found.dtype).removeprefix('torch.')}, not a float")
    if problems:
        shown = some_of(problems, _SHOWN, "; ")
        raise BundleError(f"{where} does not fit its configuration ({shown}); copy it again.")


def load_unique_weights(model: torch.nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Fill ``model`` with what :func:`unique_weights` gave; raises as :func:`check_weights` does."""
    check_weights(model, weights, where)
    with torch.no_grad():
        for name, tensor in unique_weights(model).items():
            tensor.copy_(weights[name])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises :class:`BundleError` where it is missing, cut short or damaged."""
    try:
        with signals_kept(), safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # the file is no dict
    except OSError as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else error.strerror or "unreadable"
        raise BundleError(f"cannot read {path}: {reason}; copy the folder again.") from None
    except SafetensorError as error:
        raise BundleError(f"{path} is damaged or cut short ({error}); copy the folder again.") from None


def save_bundle(bundle: Bundle, folder: str | os.PathLike[str]) -> None:
    """Write a model directory, atomically; one that stands there is replaced.

    The weights keep their type; a tied matrix is written once. Raises :class:`DragomanError` for a place that
    cannot be written, or that holds anything but a model directory.
    """
    folder = Path(folder)
    if folder.exists() and not _may_be_replaced(folder):
        raise DragomanError(f"{folder} exists and is no model directory; choose another place.")
    with atomic_folder(folder) as part:
        write_bundle(bundle, part, folder)


def write_bundle(bundle: Bundle, part: Path, folder: Path) -> None:
    """Fill ``part``, an empty folder that will take the place of ``folder``, with a model directory."""
    config = {
        "format_version": FORMAT_VERSION,
        "src_lang": bundle.src_lang,
        "tgt_lang": bundle.tgt_lang,
        "model": bundle.model.config.model_dump(mode="json"),
    }
    write_json(part / "config.json", config)
    weights = {name: tensor.cpu().contiguous() for name, tensor in unique_weights(bundle.model).items()}
    try:
        save_file(weights, part / "model.safetensors")
    except SafetensorError as error:
        raise DragomanError(f"cannot write {folder / 'model.safetensors'}: {error}; make room for it.") from None
    bundle.tokenizers.save(part)
    write_json(part / "decode.json", bundle.decode.model_dump(mode="json"))
    write_text(part / "README.md", bundle.card)


def _may_be_replaced(folder: Path) -> bool:
    """Whether a folder is empty or a model directory of ours: other projects keep a ``config.json`` too."""
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    try:
        return "format_version" in _read_json(folder / "config.json")
    except BundleError:
        return False


def load_bundle(
    folder: str | os.PathLike[str], device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
) -> Bundle:
    """Read a model directory, the model in evaluation mode with weights of type ``dtype``.

    Raises :class:`BundleError` that names the file for a directory that is incomplete, damaged or of another format.
    """
    folder = Path(folder)
    config, model_config = read_config(folder)
    tokenizers = TokenizerPair.load(folder)
    sizes = (tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    if sizes != (model_config.src_vocab_size, model_config.tgt_vocab_size):
        raise BundleError(
            f"{folder}: the tokenizers have {sizes[0]} and {sizes[1]} tokens, and the model "
            f"{model_config.src_vocab_size} and {model_config.tgt_vocab_size}; copy the folder again."
        )
    model = _load_model(model_config, folder / "model.safetensors", dtype).to(device).eval()
    decode = _settings(folder / "decode.json", _read_json(folder / "decode.json"), DecodeConfig)
    card = folder / "README.md"
    text = card.read_bytes().decode("utf-8", errors="replace") if card.is_file() else ""
    return Bundle(model, tokenizers, decode, config["src_lang"], config["tgt_lang"], text)


def _load_model(config: ModelConfig, path: Path, dtype: torch.dtype) -> Transformer:
    """The model with the weights in ``path``, which are checked before any room is made for them.

    In their own type they stay in the file, which is mapped into memory privately: pages are read when they are used,
    and what is changed is a copy.
    """
    weights = read_tensors(path)
    layers = config.n_encoder_layers + config.n_decoder_layers
    if layers > len(weights):
        raise BundleError(
            f"{path} holds {len(weights)} tensors, and its configuration has {layers} layers; copy the folder again."
        )
    try:
        shapes = empty_model(config, "meta")
    except (RuntimeError, TypeError, OverflowError):  # sizes whose product is beyond PyTorch's
        raise BundleError(
            f"{path} does not fit its configuration, whose sizes no machine has; copy it again."
        ) from None
    check_weights(shapes, weights, str(path))
    first = {id(tensor): name for name, tensor in reversed(list(shapes.state_dict(keep_vars=True).items()))}
    names = {name: first[id(tensor)] for name, tensor in shapes.state_dict(keep_vars=True).items()}
    fill(shapes, {name: weights[stored].to(dtype) for name, stored in names.items()})
    return shapes


def fill(model: Transformer, state: Mapping[str, Tensor]) -> None:
    """Give a model on ``meta`` its tensors, which are not copied, and tie again what was tied."""
    model.load_state_dict(state, assign=True)
    if model.config.tie_embeddings != "none":
        model.output.weight = model.tgt_embedding.weight
    if model.config.tie_embeddings == "all":
        model.src_embedding.weight = model.tgt_embedding.weight


def empty_model(config: ModelConfig, device: str = "cpu") -> Transformer:
    """A model whose weights have their room (on ``meta`` not even that) and no values: made at once.

    Nothing is drawn, so that the state of the random numbers stays as it is.
    """
    with _WithoutDrawing(), torch.device(device):
        return Transformer(config)


class _WithoutDrawing(TorchFunctionMode):
    """Leaves out the drawing of initial values, which on the meta device would import all of PyTorch's compiler."""

    _DRAWING = frozenset(
        (Tensor.normal_, Tensor.uniform_, torch.nn.init.normal_, torch.nn.init.uniform_, torch.nn.init.kaiming_uniform_)
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call ``func`` unless it draws; then the tensor comes back as it is."""
        kwargs = kwargs or {}
        if func in self._DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def read_config(folder: Path) -> tuple[dict[str, Any], ModelConfig]:
    """``config.json``, whole and its model part. Raises :class:`BundleError`."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise BundleError(f"{folder} {what}; give a model directory, such as runs/NAME/best.")
    path = folder / "config.json"
    if not path.exists() and (folder / "best" / "config.json").exists():
        raise BundleError(f"{folder} is a run directory; give the model in it: {folder / 'best'}.")
    config = _read_json(path)
    if "model_type" in config:
        raise BundleError(
            f"{folder} is a {config['model_type']} folder of Hugging Face's; make a model directory of it first: "
            f"dragoman convert {folder} DEST --to dragoman."
        )
    version = config.get("format_version")
    if version != FORMAT_VERSION:
        raise BundleError(
            f"{path} has format version {version}, and this dragoman reads {FORMAT_VERSION}; "
            "use a dragoman of the age of the model."
        )
    for key in ("src_lang", "tgt_lang"):
        if not isinstance(config.get(key), str):
            raise BundleError(f'{path}: "{key}" should be a language code; copy the folder again.')
    model = _settings(path, config.get("model"), ModelConfig)
    if model.max_length > MOST_POSITIONS:
        raise BundleError(
            f"{path}: max_length is {model.max_length}, and a model has {MOST_POSITIONS} positions at most; "
            "copy the folder again."
        )
    return config, model


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else error.strerror or "unreadable"
        raise BundleError(f"cannot read {path}: {reason}; give a complete model directory.") from None
    except (ValueError, RecursionError) as error:  # ValueError: bad UTF-8 too
        reason = str(error).splitlines()[0]
        raise BundleError(f"{path} is not valid JSON ({reason}); copy the folder again.") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path} holds no JSON object; copy the folder again.")
    return value


def _settings(path: Path, values: Any, kind: type[C]) -> C:
    if not isinstance(values, dict):
        raise BundleError(f"{path} holds no settings of a {kind.__name__}; copy the folder again.")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = "; ".join("".join(map(str, parts)) for _, parts in explain(error, kind))
        raise BundleError(f"{path}: {problems}; copy the folder again.") from None
