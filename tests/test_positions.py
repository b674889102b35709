"""Positions: the published formula, tables that grow, precision, rotary's laws, and where tables end."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.errors import DataError
from dragoman.model.positions import (
    Learned,
    NoPositions,
    Rotary,
    Sinusoidal,
    Table,
    make_positions,
    sinusoid_halves_table,
    sinusoid_table,
)
from model_variants import close
from tolerances import FLOAT32, FLOAT64


def added(positions: nn.Module, length: int, width: int, dtype: torch.dtype = torch.float64, start: int = 0) -> Tensor:
    """What the module adds to zeros."""
    out: Tensor = positions(torch.zeros(1, length, width, dtype=dtype), start)
    return out[0]


@settings(max_examples=30)
@given(position=st.integers(0, 6000), width=st.integers(1, 24))
def test_sinusoids_are_the_papers(position: int, width: int) -> None:
    interleaved, halves = (table(position + 1, width)[position] for table in (sinusoid_table, sinusoid_halves_table))
    assert interleaved.dtype == halves.dtype == torch.float64
    for column in range(width):
        angle = position / 10000 ** ((column - column % 2) / width)
        wanted = math.cos(angle) if column % 2 else math.sin(angle)
        assert float(interleaved[column]) == pytest.approx(wanted, abs=FLOAT64)
    assert torch.equal(halves, torch.cat([interleaved[0::2], interleaved[1::2]]))


@pytest.mark.parametrize("width", [1, 7, 8])
@pytest.mark.parametrize("halves", [False, True])
def test_a_table_that_grew_is_the_table_made_at_once(width: int, halves: bool) -> None:
    positions = Sinusoidal(width, halves)
    wanted = (sinusoid_halves_table if halves else sinusoid_table)(1000, width)
    for length in (1, 63, 64, 65, 3, 128, 129, 1000, 2):
        assert torch.equal(added(positions, length, width), wanted[:length])


@settings(max_examples=30)
@given(start=st.integers(0, 300), length=st.integers(0, 70))
def test_a_start_is_an_offset(start: int, length: int) -> None:
    positions = Sinusoidal(6)
    assert torch.equal(added(positions, length, 6, start=start), sinusoid_table(start + length, 6)[start:])


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "rotary"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_table_is_exact_and_rounded_once(kind: str, dtype: torch.dtype) -> None:
    """Whatever the model was before: a model turned to float64 does not keep a float32 table."""
    positions: Sinusoidal | Rotary = Rotary(8) if kind == "rotary" else Sinusoidal(8, kind == "sinusoidal_halves")
    positions.rows(0, 9, torch.empty(0, dtype=torch.float16))
    rows = positions.to(dtype).rows(0, 9, torch.empty(0, dtype=dtype))
    table = sinusoid_halves_table(9, 8)
    exact = table.roll(4, 1) if kind == "rotary" else table if kind == "sinusoidal_halves" else sinusoid_table(9, 8)
    assert torch.equal(rows, exact.to(dtype))


def test_positions_far_out_are_as_exact_as_the_first() -> None:
    row = added(Sinusoidal(4), 1, 4, start=100_000)[0]
    wanted = [math.sin(100_000), math.cos(100_000), math.sin(1000), math.cos(1000)]
    assert row.tolist() == pytest.approx(wanted, abs=FLOAT64)
    close(added(Sinusoidal(4), 1, 4, torch.float32, 100_000)[0].double(), row, FLOAT32)


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_a_table_first_made_in_inference_mode_serves_training(kind: str) -> None:
    """A validation pass comes before the next update, and rotary saves its table for the backward pass."""
    positions, x = (Rotary(8), torch.randn(1, 2, 5, 8)) if kind == "rotary" else (Sinusoidal(8), torch.randn(2, 5, 8))
    with torch.inference_mode():
        before = positions(x)
    x.requires_grad_()
    after = positions(x)
    after.sum().backward()
    assert torch.equal(before, after)
    assert x.grad is not None


def test_tables_made_under_another_default_device_are_real() -> None:
    with torch.device("meta"):
        positions, rotary = Sinusoidal(6), Rotary(6)
        got, turned = positions(torch.zeros(1, 3, 6, device="cpu")), rotary(torch.ones(1, 1, 3, 6, device="cpu"))
    assert torch.equal(got[0].double(), sinusoid_table(3, 6).float().double())
    assert turned.device.type == "cpu"


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "rotary", "none"])
def test_fixed_positions_hold_no_state(kind: str) -> None:
    positions = make_positions(kind, 8, 16)
    positions(torch.zeros(1, 3, 8))
    assert not positions.state_dict()
    assert not list(positions.parameters())
    other = copy.deepcopy(positions)
    assert torch.equal(other(torch.zeros(1, 70, 8)), positions(torch.zeros(1, 70, 8)))


def test_which_kind_is_made() -> None:
    assert isinstance(make_positions("learned", 4, 9), Learned)
    assert isinstance(make_positions("table", 4, 9), Table)
    assert isinstance(make_positions("none", 4, 9), NoPositions)
    # Rotary turns queries and keys: nothing is added to the embeddings.
    assert isinstance(make_positions("rotary", 4, 9), NoPositions)
    x = torch.randn(1, 2, 4)
    assert NoPositions()(x, 5) is x


@pytest.mark.parametrize("cls", [Learned, Table])
def test_bounded_tables_add_their_rows_and_end(cls: type[Learned | Table]) -> None:
    positions = cls(9, 4)
    with torch.no_grad():
        positions.weight.copy_(torch.arange(36.0).view(9, 4))
    assert torch.equal(added(positions, 3, 4, torch.float32, 2), positions.weight[2:5])
    assert torch.equal(added(positions, 9, 4, torch.float32), positions.weight)
    assert added(positions, 0, 4, torch.float32, 9).shape == (0, 4)
    for start, length in ((0, 10), (9, 1), (5, 5), (40, 1)):
        with pytest.raises(DataError, match=f"a sentence of {start + length} tokens is longer than the 9 positions"):
            added(positions, length, 4, torch.float32, start)
    assert torch.equal(positions.state_dict()["weight"], positions.weight)


def test_a_table_is_not_trained_and_learned_positions_are() -> None:
    assert not list(Table(9, 4).parameters())
    learned = Learned(9, 4)
    learned(torch.zeros(2, 3, 4), 1).sum().backward()
    assert learned.weight.grad is not None
    assert learned.weight.grad[:, 0].tolist() == [0, 2, 2, 2, 0, 0, 0, 0, 0]


def test_rotary_is_a_product_of_complex_numbers() -> None:
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    angles = torch.arange(5.0, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, 8, 2).double() / 8)
    pairs = torch.view_as_complex(x.unflatten(-1, (4, 2)).contiguous()) * torch.polar(torch.ones_like(angles), angles)
    close(Rotary(8)(x), torch.view_as_real(pairs).flatten(-2))


@settings(max_examples=30)
@given(query=st.integers(0, 400), key=st.integers(0, 400), shift=st.integers(0, 400), seed=st.integers(0, 99))
def test_rotary_keeps_lengths_and_sees_distances_alone(query: int, key: int, shift: int, seed: int) -> None:
    rotary = Rotary(6)
    q, k = torch.randn(2, 1, 1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    close(rotary(q, query).norm(), q.norm())
    near, far = ((rotary(q, query + s) * rotary(k, key + s)).sum() for s in (0, shift))
    close(near, far)
    close(rotary(q, 0), q)


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_no_tokens_are_no_error(kind: str) -> None:
    for _ in range(2):
        if kind == "rotary":
            assert Rotary(4)(torch.zeros(2, 1, 0, 4)).shape == (2, 1, 0, 4)
        else:
            assert Sinusoidal(4)(torch.zeros(2, 0, 4)).shape == (2, 0, 4)
