"""What ``dragoman info`` counts, against the sizes written out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.bundle import empty_model
from dragoman.cli.info import card_scores, parameters_by_part
from dragoman.config import ModelConfig, RunConfig
from dragoman.evaluation import evaluate
from dragoman.training.card import Trained, model_card

CONFIG = ModelConfig(
    src_vocab_size=50, tgt_vocab_size=50, d_model=8, n_heads=2, d_ff=12, n_encoder_layers=1, n_decoder_layers=2,
    max_length=20,
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_embeddings": "none"},
        {"tie_embeddings": "decoder", "output_bias": False},
        {"tie_embeddings": "all", "positions": "learned"},
        {"tie_embeddings": "none", "positions": "table", "n_encoder_layers": 0},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_parameters_are_counted_once_by_part(changes: dict[str, Any], device: str) -> None:
    config = CONFIG.changed(**changes)
    attention, feed_forward, norm = 4 * (8 * 8 + 8), 8 * 12 + 12 + 12 * 8 + 8, 8 + 8
    parts = {
        "embeddings": 50 * 8 * (1 if config.tie_embeddings == "all" else 2),
        "positions": 2 * 20 * 8 if config.positions == "learned" else 0,
        "encoder": norm + config.n_encoder_layers * (attention + feed_forward + 2 * norm),
        "decoder": norm + 2 * (2 * attention + feed_forward + 3 * norm),
        "output": 50 * config.output_bias + (50 * 8 if config.tie_embeddings == "none" else 0),
    }
    expected = {part: count for part, count in parts.items() if count}
    assert parameters_by_part(empty_model(config, device)) == {**expected, "total": sum(expected.values())}


def test_the_scores_of_a_real_card_are_read_back() -> None:
    references = ["ein Hund schläft auf dem Hof", "drei Katzen sitzen am Fenster"]
    scores = evaluate([references[0], "zwei Katzen sitzen am Fenster"], references, ("bleu", "chrf"), confidence=True)
    config = RunConfig(data={"train": {"src": "a", "tgt": "b"}}, train={"max_steps": 5})
    rows = card_scores(model_card(config, Trained(10, 1, 1000, 5, 1.0, 60.0, 2.5), scores))
    assert [(row["metric"], row["score"], row["signature"]) for row in rows] == [
        (score.name, f"{score.value:.2f}", score.signature) for score in scores
    ]
    assert all(row["on"].startswith("test set, beam 5") and " to " in row["95 % interval"] for row in rows)
