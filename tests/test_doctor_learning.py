"""The doctor's short trainings: what can learn is told from what cannot."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import ModelConfig, TrainConfig
from dragoman.doctor import learning
from dragoman.model.transformer import Transformer
from dragoman.preflight.finding import Finding
from dragoman.text.batching import Batch, collate

V = 40


def model(**changes: Any) -> Transformer:
    torch.manual_seed(1)
    shape: dict[str, Any] = {
        "src_vocab_size": V, "tgt_vocab_size": V, "d_model": 32, "n_heads": 2, "n_encoder_layers": 1,
        "n_decoder_layers": 1, "d_ff": 64,
    }  # fmt: skip
    return Transformer(ModelConfig(**{**shape, **changes})).eval()


def batch(pairs: int = 8, seed: int = 1) -> Batch:
    """Sources at random, targets the same in reverse."""
    draw = random.Random(seed)
    rows = [[draw.randrange(4, V) for _ in range(draw.randint(4, 8))] for _ in range(pairs)]
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V)
    return collate([(row, row[::-1]) for row in rows], config, range(pairs))


def settings(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"max_steps": 100, **changes})


def only(findings: Iterable[Finding], severity: str) -> str:
    found = list(findings)
    assert len(found) == 1, found
    assert found[0].severity == severity, found
    return found[0].text


def overfit(network: Transformer, seconds: float = 30.0, **changes: Any) -> list[Finding]:
    return list(learning.overfit(network, batch(), settings(**changes), seconds, lambda text: None))


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm_first": False}, {"tie_embeddings": "all", "positions": "rotary"}, {"dropout": 0.9}, {"norm": "rms"}],
)
def test_a_batch_is_learned_by_heart_and_the_model_stays_as_it_was(changes: dict[str, Any]) -> None:
    network = model(**changes)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    text = only(overfit(network), "ok")
    assert text.startswith("the loss of 8 pairs fell from ")
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not network.training
    assert all(parameter.grad is None for parameter in network.parameters())


def test_settings_that_would_hinder_learning_by_heart_do_not_matter() -> None:
    changes = {"label_smoothing": 0.9, "optimizer": "adamw", "weight_decay": 0.9, "lr": 1e-12, "clip_norm": 1e-9}
    only(overfit(model(), **changes), "ok")


def test_a_model_whose_decoder_hears_nothing_cannot_learn() -> None:
    network = model()
    decode = network.decode

    def deaf(tgt: Tensor, memory: Tensor | None, *masks: Any) -> Tensor:
        return decode(tgt, memory, *masks) * 0.0

    # Of the target's first word even a bias can learn which are frequent; nothing more.
    network.decode = deaf  # type: ignore[method-assign]
    assert "cannot be learned by heart" in only(overfit(network), "error")


def test_frozen_weights_cannot_learn() -> None:
    network = model()
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name == "output.bias")
    assert "look for frozen or dead weights" in only(overfit(network), "error")


def test_a_model_that_is_far_too_small() -> None:
    found = overfit(model(d_model=2, n_heads=1, d_ff=2))
    assert found[0].severity in ("error", "warning")
    assert "too small" in found[0].text


def test_weights_that_are_no_numbers_cannot_learn() -> None:
    network = model()
    with torch.no_grad():
        network.encoder.norm.weight.fill_(float("nan"))
    assert "is no number after 1 updates" in only(overfit(network), "error")


def test_time_that_is_too_short_is_no_verdict() -> None:
    assert "--seconds" in only(overfit(model(), seconds=0.0), "note")


def rate(lr: float, network: Transformer | None = None, **changes: Any) -> tuple[list[Finding], learning.Pace]:
    def batches() -> Iterator[Batch]:
        seed = 0
        while True:
            seed += 1
            yield batch(16, seed)

    pace = learning.Pace()
    run = settings(lr=lr, **changes)
    found = learning.rate_test(network or model(), batches(), run, lr, 30.0, lambda text: None, pace)
    return list(found), pace


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_rate_that_is_borne(precision: str) -> None:
    network = model()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    found, pace = rate(3e-3, network, precision=precision)
    assert only(found, "ok").startswith("up to 3.0e-03 the loss went from ")
    assert pace.seconds is not None
    assert 0.0 < pace.seconds < 10.0
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize("lr", [1.0, 100.0])
def test_a_rate_that_diverges(lr: float) -> None:
    text = only(rate(lr)[0], "warning")
    assert "the loss exploded" in text
    assert f"the peak set is {lr:.1e}" in text


def test_an_explosion_to_no_number_is_one_too() -> None:
    assert "the loss exploded" in only(rate(1e30, clip_norm=0.0)[0], "warning")


def test_the_rise() -> None:
    rates = [learning._rise(number, 40, 0.5) for number in range(60)]
    assert rates[0] == pytest.approx(0.005, abs=1e-9)
    assert rates[39:] == [0.5] * 21
    assert all(left < right for left, right in itertools.pairwise(rates[:40]))


def test_a_rate_test_without_time_says_so() -> None:
    endless = (batch(16, seed) for seed in range(1000))
    pace = learning.Pace()
    found = list(learning.rate_test(model(), endless, settings(), 1e-3, 0.0, lambda text: None, pace))
    assert "the time was up" in only(found, "note")
