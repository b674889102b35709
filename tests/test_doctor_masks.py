"""The doctor's probes: every model of ours passes, and each broken mask is caught by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

import model_variants
from bundles import make_bundle
from dragoman.doctor.masks import masked_rows, probe, probe_batch
from dragoman.model import attention, masks
from dragoman.model.cache import SelfCache
from dragoman.model.masks import AttentionMask
from dragoman.model.transformer import Transformer
from dragoman.preflight.finding import Finding
from dragoman.text.batching import Batch

PAIRS = [([5, 6, 7, 8, 9, 10, 11], [4, 5, 6, 7]), ([7, 5], [9, 9, 4, 8, 6, 7, 5])]


def model(name: str = "ours", **changes: Any) -> Transformer:
    return model_variants.make(name, torch.float32, src_eos=True, **changes)


def only(findings: Iterable[Finding], severity: str = "error") -> str:
    found = list(findings)
    assert len(found) == 1, found
    assert found[0].severity == severity
    return found[0].text


def both(network: Transformer, batch: Batch) -> list[Finding]:
    return [*probe(network, batch), *masked_rows(network, batch)]


@pytest.mark.parametrize("name", model_variants.VARIANTS)
@pytest.mark.parametrize("pairs", [[], PAIRS])
def test_every_variant_passes(name: str, pairs: list[tuple[list[int], list[int]]]) -> None:
    network = model(name)
    found = both(network, probe_batch(network, pairs))
    if name == "no positions":
        assert "order of the source's words makes no difference" in only(found, "warning")
    else:
        assert found == []


def test_the_probe_s_batch_is_padded_on_both_sides_and_small() -> None:
    network = model("learned")
    batch = probe_batch(network, [(list(range(4, 12)) * 20, list(range(4, 12)) * 20)])
    assert batch.src_mask is not None
    assert batch.tgt_mask is not None
    assert max(batch.src.shape[1], batch.tgt_in.shape[1]) <= network.config.max_length
    assert len(batch.src) == 4


@pytest.mark.parametrize("kind", ["marian-like", "bundle"])
def test_real_vocabularies_pass(kind: str) -> None:
    bundle = make_bundle(joint=kind == "bundle", positions="rotary" if kind == "bundle" else "sinusoidal")
    if kind == "marian-like":
        # A converted model forbids <pad> by -inf.
        with torch.no_grad():
            bundle.model.output.bias[1] = float("-inf")
    assert both(bundle.model, probe_batch(bundle.model, [])) == []


Attend = Callable[..., Tensor]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[dict[str, Any]], None]], None]:
    """Change the arguments of each fused attention on their way."""
    whole: Attend = torch.nn.functional.scaled_dot_product_attention

    def apply(change: Callable[[dict[str, Any]], None]) -> None:
        def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
            change(options)
            return whole(query, key, value, **options)

        monkeypatch.setattr(attention.F, "scaled_dot_product_attention", attend)

    return apply


def test_a_decoder_that_sees_its_answer(broken: Any) -> None:
    def open_all(options: dict[str, Any]) -> None:
        mask = options.get("attn_mask")
        if mask is not None and mask.shape[-2] > 1:
            # Only the padding is left of the mask.
            options["attn_mask"] = mask.any(-2, keepdim=True).expand_as(mask)

    broken(open_all)
    found = [finding.text for finding in probe(model(), probe_batch(model(), PAIRS))]
    assert any("sees target tokens that it is to predict" in text for text in found)


def test_a_causal_rule_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = masks.causal

    def late(length: int, device: torch.device | None = None) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool, device=device).tril(1)

    batch = probe_batch(model(), PAIRS)
    assert right(3).sum() == 6
    monkeypatch.setattr(masks, "causal", late)
    assert any("it is to predict" in finding.text for finding in probe(model(), batch))


def test_a_source_mask_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = probe_batch(model(), PAIRS)
    monkeypatch.setattr(masks, "for_keys", lambda mask: None)
    found = [finding.text for finding in probe(model(), batch)]
    assert any("sees padding of the source" in text for text in found)
    assert any("otherwise alone than in a batch" in text for text in found)


def test_a_target_mask_that_is_lost_hides_nothing_where_the_padding_stands_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = probe_batch(model(), PAIRS)
    monkeypatch.setattr(masks, "for_causal", lambda mask, length: None)
    assert list(probe(model(), batch)) == []
    assert batch.tgt_mask is not None
    # Padding in front is what the mask is for.
    turned = dataclasses.replace(
        batch, tgt_in=batch.tgt_in.flip(1), tgt_out=batch.tgt_out.flip(1), tgt_mask=batch.tgt_mask.flip(1)
    )
    assert any("sees padding of the target" in finding.text for finding in probe(model(), turned))


def test_neighbours_that_leak() -> None:
    network = model()
    embed = network.embed_src
    network.embed_src = lambda src: embed(src) - embed(src).mean((0, 1))  # type: ignore[method-assign]
    assert any(
        "otherwise alone than in a batch" in finding.text for finding in probe(network, probe_batch(network, PAIRS))
    )


@pytest.mark.parametrize("shift", [0, 2])
def test_a_target_that_is_not_moved_by_one(shift: int) -> None:
    batch = probe_batch(model(), PAIRS)
    wrong = dataclasses.replace(batch, tgt_in=batch.tgt_out.roll(shift, 1))
    assert any("not the target moved by one place" in finding.text for finding in probe(model(), wrong))
    assert not any("moved by one" in finding.text for finding in probe(model(), batch))


def test_a_source_that_is_ignored() -> None:
    network = model()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "cross_attention.output" in name:
                parameter.zero_()
    assert "another source sentence changes no prediction" in only(probe(network, probe_batch(network, PAIRS)))


def test_single_steps_that_go_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SelfCache.append

    def forgetful(self: SelfCache, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        all_keys, all_values = append(self, keys, values)
        return all_keys[:, :, -2:], all_values[:, :, -2:]

    monkeypatch.setattr(SelfCache, "append", forgetful)
    assert "token by token the model predicts otherwise" in only(probe(model(), probe_batch(model(), PAIRS)))


def test_a_softmax_without_its_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = probe_batch(model(), PAIRS)
    assert list(masked_rows(model(), batch)) == []
    whole: Attend = attention.F.scaled_dot_product_attention

    def naive(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        """The softmax that a tutorial writes: 0 / 0 for a row of minus infinities."""
        mask = options.get("attn_mask")
        if mask is None:
            return whole(query, key, value, **options)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ value

    monkeypatch.setattr(masks, "_guarded", lambda allowed: AttentionMask(allowed, None))
    monkeypatch.setattr(attention.F, "scaled_dot_product_attention", naive)
    assert "gives NaN" in only(masked_rows(model(), batch))


def test_masking_one_row_that_moves_another() -> None:
    network = model()
    encode = network.encode

    def mixed(src: Tensor, src_mask: Tensor | None = None, record: Any = None) -> Tensor:
        memory = encode(src, src_mask, record)
        return memory + memory.mean(0, keepdim=True)

    network.encode = mixed  # type: ignore[method-assign]
    assert "changes the predictions of other rows" in only(masked_rows(network, probe_batch(network, PAIRS)))
