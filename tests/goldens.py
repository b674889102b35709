"""The golden files of the other implementations: numbers that their own code gave for small random weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from dragoman import Transformer, interop
from dragoman.model.masks import from_lengths

FOLDER = Path(__file__).parent / "golden"


@cache
def tensors(name: str) -> dict[str, Tensor]:
    """One golden file."""
    return load_file(FOLDER / f"{name}.safetensors")


@dataclass(frozen=True)
class Case:
    """One implementation's golden file, read in one variant."""

    name: str
    format: str
    n_heads: int = 4
    variant: str = "standard"
    loss: str = "cross_entropy"
    facts: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name if self.variant == "standard" else f"{self.name}-{self.variant}"

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """The weights under the implementation's own keys."""
        return {key[6:]: tensor for key, tensor in tensors(self.name).items() if key.startswith("param/")}

    def model(self, dtype: torch.dtype) -> Transformer:
        """Our model of those weights; a variant with a fault says so, which is tested on its own."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if self.variant in ("as_written", "repaired_return") else "error")
            return interop.import_state_dict(
                self.format, self.state_dict, dtype=dtype, n_heads=self.n_heads, **self.facts
            )

    def get(self, dtype: torch.dtype, quantity: str) -> Tensor | None:
        """A golden quantity, batch first; None where the file lacks it."""
        precision = "f64" if dtype == torch.float64 else "f32"
        tensor = tensors(self.name).get(f"{precision}/{self.variant}/{quantity}")
        if tensor is None or self.format != "labml" or quantity.startswith("grad") or quantity == "loss":
            return tensor
        return tensor.permute(2, 3, 0, 1) if quantity.startswith("attention") else tensor.transpose(0, 1)

    def ids(self, name: str) -> Tensor:
        """``source``, ``target_in`` or ``target_out`` ids, batch first."""
        tensor = tensors(self.name)[f"input/{name}_ids"]
        return tensor.T if self.format == "labml" else tensor

    def masks(self, model: Transformer) -> tuple[Tensor, Tensor | None]:
        """The real positions of source and target, as the implementation hides the others."""
        if self.format == "valid_len":
            lengths = tensors(self.name)["input/source_lengths"]
            return from_lengths(lengths, self.ids("source").shape[1]), None
        return self.ids("source") != model.config.src_pad_id, self.ids("target_in") != model.config.tgt_pad_id

    def real(self, model: Transformer) -> tuple[Tensor, Tensor]:
        """The positions of source and target whose rows are compared."""
        return self.ids("source") != model.config.src_pad_id, self.ids("target_in") != model.config.tgt_pad_id

    def loss_of(self, logits: Tensor, model: Transformer) -> Tensor:
        """The implementation's loss."""
        out, pad = self.ids("target_out").reshape(-1), model.config.tgt_pad_id
        rows = logits.reshape(-1, logits.shape[-1])
        if self.loss == "kl":
            kept = out != pad
            wanted = torch.full_like(rows, 0.1 / (rows.shape[1] - 2)).scatter(1, out[:, None], 0.9)
            wanted[:, pad] = 0.0
            divergence = F.kl_div(rows.log_softmax(-1)[kept], wanted[kept], reduction="sum")
            return divergence / kept.sum()
        smoothing = 0.1 if self.loss == "smoothed" else 0.0
        return F.cross_entropy(rows, out, ignore_index=pad, label_smoothing=smoothing)


CASES = [
    Case("valid_len_article", "valid_len", 2, "repaired_paper"),
    Case("valid_len_article", "valid_len", 2, "repaired_return", facts={"variant": "repaired_return"}),
    Case("valid_len_article", "valid_len", 2, "as_written", facts={"variant": "as_written"}),
    Case("hyunwoongko", "hyunwoongko"),
    Case("labml_fixed_positions", "labml"),
    Case("labml_learned_positions", "labml"),
    Case("hkproj_article", "hkproj", loss="smoothed"),
    Case("hkproj_no_attention_bias", "hkproj", loss="smoothed"),
    Case("hkproj_current", "hkproj", loss="smoothed"),
    Case("annotated", "annotated", loss="kl"),
]
TORCH_CASES = [
    Case("torch_post_norm", "torch"),
    Case("torch_pre_norm", "torch", facts={"norm_first": True}),
]


def foreign_gradients(case: Case, model: Transformer) -> dict[str, Tensor]:
    """The gradients of our parameters under the implementation's keys, carried over by the key table as weights are."""
    gradients = Transformer(model.config).to(next(model.parameters()).dtype)
    gradients.load_state_dict(model.state_dict())
    with torch.no_grad():
        for ours, theirs in zip(gradients.parameters(), model.parameters(), strict=True):
            ours.copy_(torch.zeros_like(theirs) if theirs.grad is None else theirs.grad)
    return interop.export_state_dict(case.format, gradients)
