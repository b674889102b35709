"""The golden numbers that the repository keeps are those that came with the other implementations' facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldens import FOLDER
from test_presets import COUNTS, KAIMING, TORCH, XAVIER

pytestmark = pytest.mark.shared

# Where the parts of our models stand in the reference's table of bounds.
_PARTS = {
    "src_embedding": ("embedding", "source_embedding"),
    "tgt_embedding": ("embedding", "target_embedding"),
    "attention": ("attention",),
    "feed_forward.inner": ("ffn_in", "ffn"),
    "feed_forward.output": ("ffn_out", "ffn"),
    "output": ("output",),
}
_COLUMNS = {
    "valid_len": "valid_len_article",
    "labml": "labml_fixed",
    "hkproj-article": "hkproj_article",
    "hkproj-no-bias": "hkproj_no_attention_bias",
    "hkproj": "hkproj_current",
}


@pytest.fixture
def text(shared_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared_dir / "fixtures/reference/text.json").read_text(encoding="utf-8"))
    return found


def test_tensors(shared_dir: Path) -> None:
    files = sorted((shared_dir / "fixtures/reference").glob("*.safetensors"))
    assert len(files) >= 17
    for file in files:
        assert file.read_bytes() == (FOLDER / file.name).read_bytes(), file.name


def test_learning_rates(text: dict[str, Any]) -> None:
    ours = json.loads((FOLDER / "learning_rates.json").read_text(encoding="utf-8"))
    theirs = text["learning_rates"]
    assert ours["noam"] == theirs["warmup_then_inverse_root"]["tables"]
    assert ours["plateau"] == {key: value for key, value in theirs["reduce_on_plateau"].items() if key != "rule"}


def test_metrics(text: dict[str, Any]) -> None:
    ours, theirs = json.loads((FOLDER / "metrics.json").read_text(encoding="utf-8")), text["metrics"]
    for key in ("corpus_word_bleu", "character_error_rate", "word_error_rate"):
        assert ours[key] == theirs[key]
    assert ours["word_bleu"] == [pair.pop("word_bleu") for pair in theirs["pairs"]]
    assert ours["pairs"] == theirs["pairs"]


def test_parameter_counts(text: dict[str, Any]) -> None:
    full, small = text["parameter_counts"]
    for preset, changes, of_full, _, of_small in COUNTS:
        column = "labml_learned_5000" if changes else _COLUMNS.get(preset, preset)
        assert (of_full, of_small) == (full[column], small[column]), column


@pytest.mark.parametrize(
    ("ours", "name"), [(KAIMING, "hyunwoongko"), (XAVIER, "xavier"), (TORCH, "valid_len")], ids=lambda one: str(one)[:9]
)
def test_initial_ranges(text: dict[str, Any], ours: dict[str, float], name: str) -> None:
    theirs = text["initial_ranges"][name]
    for module, bound in ours.items():
        keys = next(keys for part, keys in _PARTS.items() if part in module)
        assert bound == next(theirs[key] for key in keys if key in theirs), module
