"""A Hugging Face Marian folder, in and out: configuration, weights, both SentencePiece models, their vocabulary.

transformers itself is used by :func:`check_folder` alone, where it is installed.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from dragoman import __version__
from dragoman.bundle import Bundle
from dragoman.config import ModelConfig
from dragoman.errors import BundleError, ConversionError
from dragoman.files import write_json, write_text
from dragoman.interop import read, write
from dragoman.interop.card import facts_of
from dragoman.interop.check import judged, random_ids, rounding
from dragoman.interop.marian import FORMAT, POSITIONS
from dragoman.interop.marian_config import MODEL_TYPE, id_reasons, marian_config, model_facts
from dragoman.interop.marian_decode import decode_settings, generation_config, lost_settings
from dragoman.interop.weights import read_weights
from dragoman.interop.write import ExportPlan
from dragoman.model.positions import sinusoid_halves_table
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import TokenizerPair

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
# In the order in which transformers looks for them.
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_LANGUAGES = {"src_lang": "source_lang", "tgt_lang": "target_lang"}


def is_model(path: Path) -> bool:
    """Whether a folder's ``config.json`` says that it holds a Marian model."""
    try:
        return _read_json(path / CONFIG).get("model_type") == MODEL_TYPE
    except ConversionError:
        return False


def load_folder(path: Path, facts: Mapping[str, Any], dtype: torch.dtype = torch.float32) -> Bundle:
    """The model, tokenizers, search settings and languages of a folder; weights of any precision come as ``dtype``.

    ``facts``: ``src_lang`` and ``tgt_lang``, where the folder does not name them. Raises :class:`ConversionError`
    with every setting that cannot be had, or the file that is missing or damaged.
    """
    config = _read_json(path / CONFIG)
    if config.get("model_type") != MODEL_TYPE:
        raise ConversionError(f"{path / CONFIG}: model_type is {config.get('model_type')}, not {MODEL_TYPE}.")
    spare = [name for name in facts if name not in _LANGUAGES]
    if spare:
        raise ConversionError(f"a {FORMAT.name} folder says all about itself; leave out {', '.join(spare)}.")
    langs = {ours: language(ours, facts[ours]) for ours in _LANGUAGES if ours in facts}
    generation = _read_json(path / GENERATION) if (path / GENERATION).exists() else config
    told = _read_json(path / TOKENIZER) if (path / TOKENIZER).exists() else {}
    for ours, theirs in _LANGUAGES.items():
        if ours not in langs:
            where = f"{path / TOKENIZER}: {theirs}"
            langs[ours] = language(where, told[theirs], ours) if told.get(theirs) else ours[:3]
    tokenizers = _tokenizers(path, told.get("separate_vocabs") is True)
    model_told, reasons = model_facts({**config, **_ids(generation)})
    never = {tokenizers.tgt.unk_id, model_told["tgt_pad_id"], model_told["bos_id"]}
    decode, more, differences = decode_settings(generation, never, tokenizers.tgt.vocabulary())
    reasons += [*more, *_misfits(model_told, tokenizers)]
    if reasons:
        raise ConversionError(f"cannot read {path} as {FORMAT.name}: {'; '.join(reasons)}.")
    model = read.read(FORMAT, _weights(path), dtype, model_told, str(path))
    bundle = Bundle(model, tokenizers, decode, **langs)
    bundle.card = _card(bundle, path, differences)
    return bundle


def language(name: str, value: Any, fact: str = "") -> str:
    """A language's code, of which any word will do. Raises :class:`ConversionError`, saying its ``name``."""
    if isinstance(value, str) and value.isprintable() and 0 < len(value) <= 64 and not re.search(r"[\s/\\]", value):
        return value
    way = f"give {fact}=, for example {fact}=de" if fact else f"give for example {name}=de"
    raise ConversionError(f"{name} is {_short(value)}, which is no language code; {way}.")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else error.strerror or "unreadable"
        raise ConversionError(f"cannot read {path}: {reason}; give a complete {FORMAT.name} folder.") from None
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{path} is not valid JSON ({str(error).splitlines()[0]}); copy it again.") from None
    if not isinstance(value, dict):
        raise ConversionError(f"{path} holds no JSON object; copy it again.")
    return value


def _ids(generation: Mapping[str, Any]) -> dict[str, Any]:
    """The special ids that ``generate`` uses, which it prefers to the model's."""
    names = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    return {name: generation[name] for name in names if generation.get(name) is not None}


def _tokenizers(path: Path, separate: bool) -> TokenizerPair:
    """Both SentencePiece models, with one vocabulary unless the vocabularies are ``separate``."""
    wanted = ["source.spm", "target.spm", "vocab.json", *(["target_vocab.json"] if separate else [])]
    missing = [name for name in wanted if not (path / name).is_file()]
    if missing:
        raise ConversionError(f"{path} lacks {', '.join(missing)}; give a complete {FORMAT.name} folder.")
    try:
        pair = TokenizerPair.load(path)
        if not separate and isinstance(pair.src, SentencePieceTokenizer) and not pair.joint:
            # A target_vocab.json that the folder does not use.
            model = (path / "target.spm").read_bytes()
            pair = TokenizerPair(pair.src, SentencePieceTokenizer(model, pair.src.pieces, str(path / "target.spm")))
    except BundleError as error:
        raise ConversionError(str(error)) from None
    return pair


def _misfits(facts: Mapping[str, Any], tokenizers: TokenizerPair) -> list[str]:
    """Where the vocabularies are not those of the model."""
    reasons = []
    for side, tokenizer in (("source", tokenizers.src), ("target", tokenizers.tgt)):
        size = facts[f"{'src' if side == 'source' else 'tgt'}_vocab_size"]
        if tokenizer.vocab_size != size:
            reasons.append(f"the {side} vocabulary has {tokenizer.vocab_size} pieces, and the model {size} rows for it")
        if tokenizer.eos_id != facts["eos_id"]:
            reasons.append(
                f"</s> is {tokenizer.eos_id} in the {side} vocabulary, and eos_token_id is {facts['eos_id']}"
            )
    return reasons


def _weights(path: Path) -> Mapping[str, Any]:
    """The state dict in the one file or in the parts that an index names."""
    found = next((path / name for name in _WEIGHTS if (path / name).exists()), None)
    if found is None:
        raise ConversionError(f"{path} holds no weights; it should have {_WEIGHTS[0]} or {_WEIGHTS[2]}.")
    if not found.name.endswith(".index.json"):
        return read_weights(found)
    where = _read_json(found).get("weight_map")
    if not isinstance(where, dict) or not all(
        isinstance(name, str) and Path(name).name == name and name not in ("", "..") and name.isprintable()
        for name in where.values()
    ):
        raise ConversionError(f"{found} names no files of weights beside it; copy it again.")
    parts = {name: read_weights(path / name) for name in sorted(set(where.values()))}
    lost = [f"{key} in {name}" for key, name in where.items() if key not in parts[name]]
    if lost:
        raise ConversionError(f"{found} promises what is not there ({', '.join(lost)}); copy the folder again.")
    return {key: tensor for part in parts.values() for key, tensor in part.items()}


def _card(bundle: Bundle, path: Path, differences: list[str]) -> str:
    """A model card: whence, what differs in the search, and the card that the folder had."""
    lines = [
        f"# {bundle.src_lang} → {bundle.tgt_lang}",
        "",
        f"Converted from the Hugging Face {FORMAT.name} model {path.resolve().name} by dragoman {__version__}.",
    ]
    if differences:
        lines += ["", "Settings of its `generate` that are otherwise here:", "", *(f"- {item}" for item in differences)]
    before = path / "README.md"
    if before.is_file():
        lines += [
            "",
            "## The card that it came with",
            "",
            before.read_bytes().decode("utf-8", errors="replace").strip(),
        ]
    return "\n".join([*lines, ""])


def plan_folder(config: ModelConfig, tokenizers: TokenizerPair) -> ExportPlan:
    """What writing a folder would rewrite, and everything that stands against it."""
    way = write.plan(FORMAT, config)
    reasons = [*way.refused, *id_reasons(config)]
    for side, tokenizer in (("source", tokenizers.src), ("target", tokenizers.tgt)):
        if not isinstance(tokenizer, SentencePieceTokenizer):
            reasons.append(kind_reason(side, tokenizer.kind))
        elif tokenizer.eos_id != config.eos_id:
            reasons.append(f"</s> is {tokenizer.eos_id} in the {side} vocabulary, and eos_id is {config.eos_id}")
    return replace(way, refused=tuple(dict.fromkeys(reasons)))


def kind_reason(side: str, kind: str) -> str:
    """Why a tokenizer of this kind cannot go out; ``side`` is source, target or "text"."""
    return (
        f"the {side} tokenizer is of kind {kind}, and its tokenizer knows SentencePiece only "
        "(train with tokenizer: {kind: sentencepiece})"
    )


def save_folder(bundle: Bundle, folder: Path) -> None:
    """Write all that ``MarianMTModel`` and ``MarianTokenizer`` load into ``folder``, which exists.

    Raises :class:`ConversionError` with every reason against it, before anything is written.
    """
    way = plan_folder(bundle.model.config, bundle.tokenizers)
    if way.refused:
        raise ConversionError(f"cannot write this model as {FORMAT.name}: {'; '.join(way.refused)}.")
    config = bundle.model.config
    for rewrite in way.rewrites:
        config = config.changed(**{rewrite.field: rewrite.value})
    state = write.write(FORMAT, bundle.model, {})
    fmt, _, _ = FORMAT.resolved({"tie_embeddings": config.tie_embeddings}, None)
    left_out = {*POSITIONS, *(other for others in fmt.aliases.values() for other in others)}
    kept = {key: tensor for key, tensor in state.items() if key not in left_out}
    try:
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    except SafetensorError as error:
        raise ConversionError(f"cannot write the weights into {folder}: {error}; make room for them.") from None
    dtype = str(bundle.model.output.weight.dtype).removeprefix("torch.")
    settings = marian_config(config, dtype)
    write_json(folder / CONFIG, settings)
    numbers = {piece: index for index, piece in enumerate(bundle.tokenizers.tgt.vocabulary())}
    banned = {bundle.tokenizers.tgt.unk_id, config.tgt_pad_id, config.bos_id} - {config.eos_id}
    banned |= {numbers[piece] for piece in bundle.decode.suppress if piece in numbers}
    ids = _ids(settings)
    write_json(folder / GENERATION, generation_config(bundle.decode, config.max_length, banned, ids))
    bundle.tokenizers.save(folder)
    write_json(folder / TOKENIZER, _tokenizer_config(bundle))
    lost = [f"- {item}" for item in lost_settings(bundle.decode)]
    note = ["", "Where `generate` searches otherwise than dragoman:", "", *lost, ""] if lost else []
    write_text(folder / "README.md", facts_of(bundle.card) + "\n".join(note))


def _tokenizer_config(bundle: Bundle) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": bundle.src_lang,
        "target_lang": bundle.tgt_lang,
        "separate_vocabs": not bundle.tokenizers.joint,
        "model_max_length": bundle.model.config.max_length,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "clean_up_tokenization_spaces": False,
    }


@torch.no_grad()
def check_folder(bundle: Bundle, folder: Path) -> float:
    """The largest difference in float64 between the bundle's logits and the folder's, on random padded ids.

    The folder is loaded by transformers, or by us where that is not installed. transformers rounds its position
    tables to float32 whatever the type of the model: where they are ours so rounded, both compute with the exact ones.
    """
    src, tgt = random_ids(bundle.model.config)
    mask = torch.ones_like(src, dtype=torch.bool)
    mask[::2, (src.shape[1] + 1) // 2 :] = False
    ours = copy.deepcopy(bundle.model).double().cpu().eval()(src, tgt, mask)
    theirs = _their_logits(folder, src, tgt, mask)
    if theirs is None:
        theirs = load_folder(folder, {}, torch.float64).model(src, tgt, mask)
    return judged("logits", ours, theirs, rounding(bundle.model.output.weight.dtype))


def _their_logits(folder: Path, src: Tensor, tgt: Tensor, mask: Tensor) -> Tensor | None:
    """Logits of transformers' own model, None where there is no transformers."""
    try:
        from transformers import MarianMTModel
    except ImportError:
        return None
    with _quiet():
        model: Any = MarianMTModel.from_pretrained(folder, local_files_only=True)
    model = model.double().eval()
    for stack in (model.model.encoder, model.model.decoder):
        rounded = stack.embed_positions.weight
        exact = sinusoid_halves_table(*rounded.shape)
        if torch.equal(rounded, exact.float().double()):
            rounded.copy_(exact)
    logits: Tensor = model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt).logits
    return logits


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bar of transformers inside the block."""
    from transformers.utils import logging as library_logging

    logging: Any = library_logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
