"""Each published implementation computed by the ordinary model: its own numbers are met, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman import Transformer, interop
from goldens import CASES, TORCH_CASES, Case, foreign_gradients, tensors
from tolerances import FLOAT32, FLOAT64

PRECISIONS = [
    pytest.param(torch.float64, FLOAT64, id="f64"),
    pytest.param(torch.float32, FLOAT32, id="f32"),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_torch_case = pytest.mark.parametrize("case", TORCH_CASES, ids=str)
every_precision = pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
GREEDY = [case for case in CASES if case.variant in ("standard", "repaired_paper")]


def close(ours: Tensor, theirs: Tensor | None, tolerance: float, rows: Tensor | None = None) -> None:
    assert theirs is not None
    assert ours.shape == theirs.shape
    if rows is not None:
        ours, theirs = ours[rows], theirs[rows]
    torch.testing.assert_close(ours, theirs, rtol=tolerance if tolerance == FLOAT32 else 0.0, atol=tolerance)


def layer_outputs(model: Transformer, run: Callable[[], object]) -> dict[str, Tensor]:
    """What each layer of both stacks gives during ``run``."""
    found: dict[str, Tensor] = {}
    hooks = [
        layer.register_forward_hook(lambda _, __, out, name=f"layer/{stack}.{index}": found.update({name: out}))
        for stack in ("encoder", "decoder")
        for index, layer in enumerate(getattr(model, stack).layers)
    ]
    run()
    for hook in hooks:
        hook.remove()
    return found


@every_precision
@every_case
def test_outputs_and_loss(case: Case, dtype: torch.dtype, tolerance: float) -> None:
    model = case.model(dtype)
    src, tgt = case.ids("source"), case.ids("target_in")
    src_mask, tgt_mask = case.masks(model)
    src_rows, tgt_rows = case.real(model)
    memory = model.encode(src, src_mask)
    hidden = model.decode(tgt, memory, src_mask, tgt_mask)
    logits = model.project(hidden)
    close(memory, case.get(dtype, "encoder_output"), tolerance, src_rows)
    close(hidden, case.get(dtype, "decoder_output"), tolerance, tgt_rows)
    close(logits, case.get(dtype, "logits"), tolerance, tgt_rows)
    close(model(src, tgt, src_mask, tgt_mask), case.get(dtype, "logits"), tolerance, tgt_rows)
    close(case.loss_of(logits, model)[None], case.get(dtype, "loss"), tolerance)


@pytest.mark.parametrize("case", [case for case in CASES if case.get(torch.float64, "log_probs") is not None], ids=str)
def test_log_probabilities_where_the_implementation_returns_them(case: Case) -> None:
    model = case.model(torch.float64)
    logits = model(case.ids("source"), case.ids("target_in"), *case.masks(model))
    close(logits.log_softmax(-1), case.get(torch.float64, "log_probs"), FLOAT64, case.real(model)[1])


@every_case
def test_gradients(case: Case) -> None:
    model = case.model(torch.float64)
    case.loss_of(model(case.ids("source"), case.ids("target_in"), *case.masks(model)), model).backward()
    ours = foreign_gradients(case, model)
    prefix = f"f64/{case.variant}/grad/"
    keys = [name.removeprefix(prefix) for name in tensors(case.name) if name.startswith(prefix)]
    assert len(keys) >= 10
    for key in keys:
        close(ours[key], case.get(torch.float64, f"grad/{key}"), FLOAT64)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.get(torch.float64, "attention/encoder_self.0") is not None], ids=str
)
def test_attention_weights_and_layers(case: Case) -> None:
    model = case.model(torch.float64)
    src, tgt = case.ids("source"), case.ids("target_in")
    src_rows, tgt_rows = case.real(model)
    _, attention = model(src, tgt, *case.masks(model), return_attention=True)
    kinds = {"encoder_self": attention.encoder, "decoder_self": attention.decoder, "decoder_cross": attention.cross}
    for kind, layers in kinds.items():
        rows = src_rows if kind == "encoder_self" else tgt_rows
        for index, weights in enumerate(layers):
            theirs = case.get(torch.float64, f"attention/{kind}.{index}")
            assert theirs is not None
            close(weights.transpose(1, 2), theirs.transpose(1, 2), FLOAT64, rows)
    outputs = layer_outputs(model, lambda: model(src, tgt, *case.masks(model)))
    assert len(outputs) == 4
    for name, output in outputs.items():
        close(output, case.get(torch.float64, name), FLOAT64, src_rows if "encoder" in name else tgt_rows)


def greedy(model: Transformer, src: Tensor, src_mask: Tensor, limit: int = 10) -> list[int]:
    state = model.start(model.encode(src, src_mask), src_mask)
    ids = [model.config.bos_id]
    while len(ids) < limit and (len(ids) == 1 or ids[-1] != model.config.eos_id):
        ids.append(int(model.step(torch.tensor(ids[-1:]), state).argmax()))
    return ids


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("case", GREEDY, ids=str)
def test_greedy_ids_step_by_step(case: Case, dtype: torch.dtype) -> None:
    model = case.model(dtype)
    src, mask = case.ids("source"), case.masks(model)[0]
    for row in range(len(src)):
        wanted = tensors(case.name)[f"greedy/{case.variant}/{row}"].tolist()
        assert greedy(model, src[row : row + 1], mask[row : row + 1]) == wanted


@pytest.mark.parametrize("case", CASES, ids=str)
def test_stepping_gives_the_rows_of_the_whole_pass(case: Case) -> None:
    model = case.model(torch.float64)
    src, tgt = case.ids("source"), case.ids("target_in")
    src_mask = case.masks(model)[0]
    state = model.start(model.encode(src, src_mask), src_mask)
    steps = torch.stack([model.step(tgt[:, t], state) for t in range(tgt.shape[1])], 1)
    close(steps, case.get(torch.float64, "logits"), FLOAT64, case.real(model)[1])


@every_precision
@every_torch_case
def test_torch_stacks(case: Case, dtype: torch.dtype, tolerance: float) -> None:
    golden, model = tensors(case.name), case.model(dtype)
    src, tgt, probe = (golden[f"input/{name}"].to(dtype) for name in ("source", "target", "probe"))
    src_mask, tgt_mask = ~golden["input/source_padding"], ~golden["input/target_padding"]
    memory = model.encoder(src, src_mask)
    output = model.decoder(tgt, memory, src_mask, tgt_mask)
    close(memory, case.get(dtype, "encoder_output"), tolerance)
    close(output, case.get(dtype, "output"), tolerance)
    loss = (output * probe).sum()
    theirs = case.get(dtype, "loss")
    assert theirs is not None
    # A sum of some three hundred outputs errs by as many roundings.
    close(loss[None], theirs, tolerance if dtype == torch.float64 else 10 * tolerance)
    if dtype == torch.float64:
        loss.backward()
        ours = foreign_gradients(case, model)
        for name in golden:
            if name.startswith("f64/standard/grad/"):
                close(ours[name.removeprefix("f64/standard/grad/")], golden[name], FLOAT64)


@every_torch_case
def test_torch_attention_weights_and_layers(case: Case) -> None:
    golden, model = tensors(case.name), case.model(torch.float64)
    src, tgt = (golden[f"input/{name}"].double() for name in ("source", "target"))
    src_mask, tgt_mask = ~golden["input/source_padding"], ~golden["input/target_padding"]
    records: dict[str, list[Tensor]] = {"encoder_self": [], "decoder_self": [], "decoder_cross": []}

    def run() -> None:
        memory = model.encoder(src, src_mask, records["encoder_self"])
        model.decoder(tgt, memory, src_mask, tgt_mask, records["decoder_self"], records["decoder_cross"])

    for name, output in layer_outputs(model, run).items():
        close(output, case.get(torch.float64, name), FLOAT64)
    for kind, layers in records.items():
        assert len(layers) == 2
        for index, weights in enumerate(layers):
            close(weights, case.get(torch.float64, f"attention/{kind}.{index}"), FLOAT64)


@pytest.mark.parametrize("case", CASES + TORCH_CASES, ids=str)
def test_the_round_trip_is_bit_identical(case: Case) -> None:
    given = case.state_dict
    written = interop.export_state_dict(case.format, case.model(torch.float32))
    assert written.keys() == given.keys()
    for key, tensor in given.items():
        assert written[key].dtype == tensor.dtype
        assert torch.equal(written[key], tensor), key


@pytest.mark.parametrize("case", CASES + TORCH_CASES, ids=str)
def test_the_format_is_told_from_the_keys(case: Case) -> None:
    assert interop.detect_format(case.state_dict) == case.format
    assert interop.detect_format(case.state_dict.keys()) == case.format
