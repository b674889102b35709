"""Attention as arrays with tokens at their edges, and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from attention_samples import SPECIAL, SRC, TGT, Sample, Weights, sample, weights
from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.errors import DataError, UsageError
from dragoman.visualize.maps import AttentionMaps
from tolerances import FLOAT32, FLOAT64


def maps() -> AttentionMaps:
    source, translation = sample(SRC, TGT)
    return AttentionMaps.of(source, translation, SPECIAL)


def test_edges_and_weights() -> None:
    found = maps()
    assert list(found.maps) == ["cross", "encoder", "decoder"]
    _, translation = sample(SRC, TGT)
    assert translation.attention is not None
    for kind, queries, keys in [
        ("cross", TGT, SRC),
        ("encoder", SRC, SRC),
        ("decoder", TGT, ["<s>", *TGT[:-1]]),
    ]:
        one = found.map(kind)
        assert (one.queries, one.keys) == (queries, keys)
        np.testing.assert_array_equal(one.weights, np.stack(getattr(translation.attention, kind)))
        np.testing.assert_array_equal(one.panel(1, 2), one.weights[1, 2])
        np.testing.assert_allclose(one.panel(0, None), one.weights[0].mean(0), atol=FLOAT32)


def test_words() -> None:
    found = maps().of_words()
    assert (found.source, found.text) == ("The ferry leaves.", "Die Fähre geht.")
    src, tgt = ["The", "ferry", "leaves.", "</s>"], ["Die", "Fähre", "geht.", "</s>"]
    assert (found.map("cross").queries, found.map("cross").keys) == (tgt, src)
    assert (found.map("decoder").queries, found.map("decoder").keys) == (tgt, ["<s>", "Die", "Fähre", "geht."])
    for one in found.maps.values():
        assert one.weights.shape == (2, 3, len(one.queries), len(one.keys))
        np.testing.assert_allclose(one.weights.sum(-1), 1.0, atol=FLOAT32)
    assert found.of_words().fields() == found.fields()


def test_a_start_token_of_another_name() -> None:
    """Marian's decoder begins with padding."""
    source, translation = sample(SRC, TGT)
    found = AttentionMaps.of(source, translation, frozenset({"</s>"}), start="<pad>")
    assert found.map("decoder").keys[:2] == ["<pad>", "▁Die"]
    assert found.of_words().map("decoder").keys == ["<pad>", "Die", "Fähre", "geht."]


def test_json_holds_everything() -> None:
    found = maps()
    fields = json.loads(json.dumps(found.fields()))
    assert (fields["source"], fields["text"]) == (found.source, found.text)
    for kind, one in fields["attention"].items():
        assert (one["queries"], one["keys"]) == (found.map(kind).queries, found.map(kind).keys)
        np.testing.assert_allclose(np.array(one["weights"]), found.map(kind).weights, atol=1e-7)


def test_a_model_s_own_weights() -> None:
    """Rows of a real model add up to one, or are zero where nothing may be attended to."""
    translator = Translator(make_bundle(n_decoder_layers=2))
    for line in LINES:
        translation = translator.translate(line, attention=True)
        found = AttentionMaps.of(line, translation, SPECIAL)
        assert translation.attention is not None
        for kind, one in found.maps.items():
            assert one.weights.shape[:2] == (2, 2)
            np.testing.assert_array_equal(one.weights, torch.stack(getattr(translation.attention, kind)).numpy())
            np.testing.assert_allclose(one.weights.sum(-1), 1.0, atol=FLOAT32)
        assert not np.triu(found.map("decoder").weights, 1).any()
        for one in found.of_words().maps.values():
            np.testing.assert_allclose(one.weights.sum(-1), 1.0, atol=FLOAT32)


def test_dead_rows_stay_zero() -> None:
    source, translation = sample(SRC, TGT)
    assert translation.attention is not None
    for layer in translation.attention.cross:
        layer[:] = 0.0
    one = AttentionMaps.of(source, translation, SPECIAL).of_words().map("cross")
    assert not one.weights.any()


def test_bfloat16_tensors_and_a_model_without_encoder() -> None:
    cross = [torch.from_numpy(layer).bfloat16() for layer in weights(2, 3)]
    found = AttentionMaps.of("a b", Sample("c", ["▁c", "</s>"], ["▁a", "▁b", "</s>"], Weights(cross=cross)), SPECIAL)
    assert list(found.maps) == ["cross"]
    np.testing.assert_allclose(found.map("cross").weights, torch.stack(cross).float().numpy(), atol=FLOAT64)
    with pytest.raises(UsageError, match='no attention of the kind "encoder"; there is cross'):
        found.map("encoder")


def test_refusals() -> None:
    source, translation = sample(SRC, TGT)
    for nothing in (Sample("", [], [], None), Sample("x", ["x"], ["y"], None)):
        with pytest.raises(DataError, match="no attention to show"):
            AttentionMaps.of("", nothing, SPECIAL)
    translation.src_tokens = SRC[:-1]
    with pytest.raises(
        DataError, match=r"cross attention is of shape \[3, 6, 7\] and the tokens ask for \[heads, 6, 6\]"
    ):
        AttentionMaps.of(source, translation, SPECIAL)
