"""Marian and CTranslate2 beside their own libraries, as rows of the table in ``docs/interop.md``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctranslate2
import torch

from bundles import LINES
from dragoman import Transformer, Translator, interop
from dragoman.bundle import Bundle
from dragoman.interop import ctranslate2_readme
from dragoman.interop.check import torch_difference
from marian_models import CASES, batch, facts, live, their_logits
from test_interop_ctranslate2 import sharp_bundle
from test_interop_export import random_model

Values = tuple[str, str, float | None, float | None, str, str]

# The settings of CTranslate2's rows; the tests have many more.
SHAPES: dict[str, dict[str, Any]] = {
    "pre-norm, sinusoids": {},
    "post-norm, learned positions": {"norm_first": False, "positions": "learned"},
    "rotary, grouped heads, RMS norm, SwiGLU": {
        "positions": "rotary", "n_heads": 6, "n_kv_heads": 2, "norm": "rms", "feed_forward": "swiglu",
    },
}  # fmt: skip


def rows(folder: Path) -> Iterator[Values]:
    """Every row; ``folder`` is a place for the folders that the libraries load."""
    for norm_first in (False, True):
        yield torch_row(norm_first)
    for name in ("opus-mt", "gelu, not scaled", "separate vocabularies", "separate, nothing tied"):
        yield marian_row(name)
    for name, changes in SHAPES.items():
        yield from ctranslate2_rows(folder, name, changes)


def torch_row(norm_first: bool) -> Values:
    """``nn.Transformer``'s own encoder and decoder with the weights of a random model."""
    found, model = [], random_model("torch", norm_first=norm_first)
    for dtype in (torch.float64, torch.float32):
        state = interop.export_state_dict("torch", model.to(dtype))
        again = interop.import_state_dict("torch", state, dtype=dtype, n_heads=4, norm_first=norm_first)
        found.append(torch_difference(again, state, "encoder.", "decoder."))
    back = interop.export_state_dict("torch", again)
    same = all(torch.equal(back[key], state[key]) for key in state)
    name = f"`torch.nn.Transformer`, {'pre' if norm_first else 'post'}-norm"
    return "torch", name, *found, "–", "yes" if same else "NO"


def marian_row(name: str) -> Values:
    """Hugging Face's class with random weights."""
    found: dict[torch.dtype, float] = {}
    for dtype in (torch.float64, torch.float32):
        theirs = live(dtype, **CASES[name])
        ours = interop.import_state_dict("marian", theirs.state_dict(), dtype=dtype, **facts(theirs.config))
        src, tgt, src_mask, tgt_mask = batch(theirs.config)
        apart = ours(src, tgt, src_mask, tgt_mask) - their_logits(theirs, src, tgt, src_mask, tgt_mask)
        found[dtype] = apart[tgt_mask].abs().max().item()
    written = interop.export_state_dict("marian", ours)
    given = theirs.state_dict()
    same = all(torch.equal(written[key], given[key]) for key in given if "embed_positions" not in key)
    ids, mask = src[1:, :4], src_mask[1:, :4]
    wanted = theirs.generate(
        input_ids=ids, attention_mask=mask, num_beams=1, do_sample=False, max_new_tokens=10, bad_words_ids=None
    )
    alike = "1 of 1" if _greedy(ours, ids, wanted.shape[1]) == wanted[0].tolist() else "0 of 1"
    return (
        "marian", f"`transformers`, {name}", found[torch.float64], found[torch.float32], alike, "yes" if same else "NO"
    )  # fmt: skip


def _greedy(model: Transformer, src: torch.Tensor, length: int) -> list[int]:
    state = model.start(model.encode(src))
    ids = [model.config.bos_id]
    while len(ids) < length:
        logits = model.step(torch.tensor(ids[-1:]), state)
        logits[:, model.config.tgt_pad_id] = float("-inf")
        ids.append(int(logits.argmax()))
    return ids


def ctranslate2_rows(folder: Path, name: str, changes: dict[str, Any]) -> Iterator[Values]:
    """A model of ours in CTranslate2, as it is and in int8: forced log-probabilities and greedy translations."""
    bundle = sharp_bundle(max_length=200, **changes)
    for quantization in ("float32", "int8"):
        place = folder / f"{name} {quantization}"
        apart = interop.save(bundle, place, "ctranslate2", quantization=quantization).checks["log-probabilities"]
        wanted = [Translator(bundle).translate(line, beam_size=1, max_length=12).ids for line in LINES]
        found = _translated(place, bundle, quantization)
        alike = f"{sum(a == b for a, b in zip(found, wanted, strict=True))} of {len(wanted)}"
        yield "ctranslate2", f"`ctranslate2`, {quantization}: {name}", None, apart, alike, "–"


def _translated(folder: Path, bundle: Bundle, quantization: str) -> list[list[int]]:
    """CTranslate2's greedy ids."""
    src, tgt = bundle.tokenizers.src, bundle.tokenizers.tgt
    source, target = src.vocabulary(), {token: index for index, token in enumerate(tgt.vocabulary())}
    never = {bundle.model.config.tgt_pad_id, bundle.model.config.bos_id} - {bundle.model.config.eos_id}
    engine = ctranslate2.Translator(str(folder), compute_type="float32" if quantization == "float32" else "default")
    results = engine.translate_batch(
        [[source[index] for index in ids] for ids in src.encode_batch(LINES)],
        **{**ctranslate2_readme.search_options(bundle.decode), "beam_size": 1},
        max_decoding_length=12,
        disable_unk=True,
        suppress_sequences=[[tgt.vocabulary()[index]] for index in sorted(never)],
    )
    return [[target[token] for token in result.hypotheses[0]] for result in results]
