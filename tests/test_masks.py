"""Masks: from lengths, causal, and made safe for rows that may attend to nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.errors import DataError
from dragoman.model import masks

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=5)
ROWS = st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1))


def allowed_in_truth(mask: masks.AttentionMask) -> Tensor:
    return mask.allowed if mask.open is None else mask.allowed & mask.open


@given(lengths=LENGTHS, extra=st.integers(0, 3))
def test_from_lengths(lengths: list[int], extra: int) -> None:
    longest = max(lengths)
    wanted = [[place < length for place in range(longest)] for length in lengths]
    assert masks.from_lengths(torch.tensor(lengths)).tolist() == wanted
    wider = masks.from_lengths(torch.tensor(lengths), longest + extra)
    assert wider.shape == (len(lengths), longest + extra)
    assert wider.dtype == torch.bool
    assert wider.sum(1).tolist() == lengths


def test_a_length_of_zero_hides_everything_and_no_sentences_make_no_mask() -> None:
    assert masks.from_lengths(torch.tensor([0, 2])).tolist() == [[False, False], [True, True]]
    assert masks.from_lengths(torch.tensor([0])).shape == (1, 0)
    assert masks.from_lengths(torch.tensor([0]), 2).tolist() == [[False, False]]
    assert masks.from_lengths(torch.empty(0, dtype=torch.int64)).shape == (0, 0)
    assert masks.from_lengths(torch.empty(0, dtype=torch.int64), 3).shape == (0, 3)


@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_causal(length: int) -> None:
    assert masks.causal(length).tolist() == [[key <= query for key in range(length)] for query in range(length)]


def test_none_stays_none() -> None:
    assert masks.for_keys(None) is None
    assert masks.for_causal(None, 4) is None


@given(rows=ROWS)
def test_every_row_keeps_a_key_and_dead_rows_are_known(rows: list[list[bool]]) -> None:
    mask = torch.tensor(rows)
    length = mask.shape[1]
    for made, truth in (
        (masks.for_keys(mask), mask[:, None, None, :]),
        (masks.for_causal(mask, length), mask[:, None, None, :] & masks.causal(length)),
    ):
        assert made is not None
        assert made.open is not None
        assert made.allowed.any(-1).all()
        assert torch.equal(made.open, truth.any(-1, keepdim=True))
        assert torch.equal(allowed_in_truth(made), truth)
    assert mask.tolist() == rows


@given(rows=ROWS)
def test_the_causal_rule_added_to_a_mask_of_keys(rows: list[list[bool]]) -> None:
    mask = torch.tensor(rows)
    length = mask.shape[1]
    whole = masks.for_causal(mask, length)
    assert whole is not None
    added = masks.and_causal(masks.for_keys(mask), length, length, mask.device)
    assert torch.equal(allowed_in_truth(added), allowed_in_truth(whole))
    assert added.allowed.any(-1).all()
    if length > 1:
        assert masks.and_causal(whole, length, length, mask.device) is whole


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (2, 5), (5, 2)])
def test_the_causal_rule_without_a_mask(queries: int, keys: int) -> None:
    made = masks.and_causal(None, queries, keys, torch.device("cpu"))
    assert made.open is None
    assert made.allowed.tolist() == [[key <= query for key in range(keys)] for query in range(queries)]


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
def test_a_mask_must_be_boolean(dtype: torch.dtype) -> None:
    """Other libraries add -inf, or take 1 for hidden; guessing which would be silently wrong."""
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(DataError, match=f"numbers of type {name}; give booleans, True for each real token"):
        masks.for_keys(torch.ones(2, 3, dtype=dtype))
    with pytest.raises(DataError, match="give booleans"):
        masks.for_causal(torch.ones(2, 3, dtype=dtype), 3)
