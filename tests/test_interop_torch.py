"""``torch.nn.Transformer`` itself, and whole models built around it: the live class and ours give the same numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman import Transformer, interop
from dragoman.errors import ConversionError
from dragoman.model.positions import sinusoid_table
from tolerances import FLOAT64

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")

D, HEADS, SRC_WORDS, TGT_WORDS = 12, 3, 17, 19
SRC = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, 1, 1]])
TGT = torch.tensor([[2, 4, 5, 6], [2, 7, 8, 1]])


def randomised(module: nn.Module) -> Any:
    """Float64, every weight random; kept in training mode, where torch's fused path (other padded rows) is off."""
    torch.manual_seed(3)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)
    return module


def stacks(**options: Any) -> nn.Transformer:
    made: nn.Transformer = randomised(nn.Transformer(D, HEADS, 2, 1, 20, dropout=0.0, batch_first=True, **options))
    return made


def run_stacks(model: nn.Transformer, src: Tensor, tgt: Tensor, src_pad: Tensor, tgt_pad: Tensor) -> Tensor:
    hidden: Tensor = model(
        src,
        tgt,
        tgt_mask=torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1),
        src_key_padding_mask=src_pad,
        tgt_key_padding_mask=tgt_pad,
        memory_key_padding_mask=src_pad,
    )
    return hidden


class Whole(nn.Module):
    """A translator as tutorials build one: embeddings, positions and a projection around ``nn.Transformer``."""

    def __init__(self, learned: bool = False, separate: bool = False, bias: bool = True, **options: Any) -> None:
        super().__init__()
        self.core = nn.Transformer(D, HEADS, 2, 1, 20, dropout=0.0, batch_first=True, **options)
        self.src_words = nn.Embedding(SRC_WORDS, D)
        self.tgt_words = nn.Embedding(TGT_WORDS, D)
        self.learned, self.separate = learned, separate
        self.places = nn.Embedding(9, D) if learned else None
        self.tgt_places = nn.Embedding(9, D) if separate else None
        if not learned:
            self.register_buffer("pe", sinusoid_table(30, D)[:, None])
        self.out = nn.Linear(D, TGT_WORDS, bias=bias)

    def embed(self, words: nn.Embedding, places: nn.Embedding | None, ids: Tensor) -> Tensor:
        if places is None:
            return words(ids) * math.sqrt(D) + self.pe[: ids.shape[1], 0]
        vectors: Tensor = words(ids) * math.sqrt(D) + places(torch.arange(ids.shape[1]))
        return vectors

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        tgt_places = self.tgt_places if self.separate else self.places
        x, y = self.embed(self.src_words, self.places, src), self.embed(self.tgt_words, tgt_places, tgt)
        logits: Tensor = self.out(run_stacks(self.core, x, y, src == 1, tgt == 1))
        return logits


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_stacks_compute_what_the_live_class_does(norm_first: bool, activation: str, bias: bool) -> None:
    theirs = stacks(norm_first=norm_first, activation=activation, bias=bias)
    facts = {"norm_first": norm_first, "feed_forward": activation}
    ours = interop.import_state_dict("torch", theirs.state_dict(), dtype=torch.float64, n_heads=HEADS, **facts)
    x, y = torch.randn(2, 5, D, dtype=torch.float64), torch.randn(2, 4, D, dtype=torch.float64)
    memory = ours.encoder(x, SRC != 1)
    hidden = ours.decoder(y, memory, SRC != 1, TGT != 1)
    torch.testing.assert_close(hidden, run_stacks(theirs, x, y, SRC == 1, TGT == 1), rtol=0.0, atol=FLOAT64)

    back = stacks(norm_first=norm_first, activation=activation)
    back.load_state_dict(interop.export_state_dict("torch", ours))
    torch.testing.assert_close(run_stacks(back, x, y, SRC == 1, TGT == 1), hidden, rtol=0.0, atol=FLOAT64)


def test_gradients_are_those_of_the_live_class() -> None:
    theirs = stacks()
    ours = interop.import_state_dict("torch", theirs.state_dict(), dtype=torch.float64, n_heads=HEADS)
    x, y = torch.randn(2, 5, D, dtype=torch.float64), torch.randn(2, 4, D, dtype=torch.float64)
    run_stacks(theirs, x, y, SRC == 1, TGT == 1).square().sum().backward()
    ours.decoder(y, ours.encoder(x, SRC != 1), SRC != 1, TGT != 1).square().sum().backward()
    packed = theirs.decoder.layers[0].multihead_attn.in_proj_weight.grad
    attention = ours.decoder.layers[0].cross_attention
    mine = torch.cat([part.weight.grad for part in (attention.query, attention.key, attention.value)])
    torch.testing.assert_close(mine, packed, rtol=0.0, atol=FLOAT64)


def test_the_stacks_alone_get_new_embeddings_of_the_size_that_is_asked_for() -> None:
    weights = stacks().state_dict()
    least = interop.import_state_dict("torch", weights, n_heads=HEADS)
    assert (least.config.src_vocab_size, least.config.tgt_vocab_size) == (4, 4)
    sizes = {"src_vocab_size": 50, "tgt_vocab_size": 60}
    model = interop.import_state_dict("torch", weights, n_heads=HEADS, **sizes)
    assert model(SRC, TGT).shape == (2, 4, 60)
    assert float(model.src_embedding.weight.detach().std()) == pytest.approx(D**-0.5, rel=0.2)
    written = interop.export_state_dict("torch", model)
    assert written.keys() == weights.keys()


WHOLE = {"src_embedding": "src_words.weight", "tgt_embedding": "tgt_words", "generator": "out"}
VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"positions": "pe"}),
    ({"norm_first": True}, {"positions": "pe", "variant": "pre_norm"}),
    ({"bias": False}, {"positions": "pe"}),
    ({"learned": True}, {"positions": "places.weight"}),
    ({"learned": True, "separate": True}, {"positions": ("places", "tgt_places.weight")}),
    ({"learned": True, "separate": True, "activation": "gelu"}, {
        "positions": "places.weight,tgt_places", "feed_forward": "gelu",
    }),
]  # fmt: skip


def imported(weights: dict[str, Tensor], **facts: Any) -> Transformer:
    return interop.import_state_dict("torch", weights, dtype=torch.float64, n_heads=HEADS, **facts)


@pytest.mark.parametrize(("options", "facts"), VARIANTS)
def test_whole_models_in_and_out(options: dict[str, Any], facts: dict[str, Any]) -> None:
    theirs = randomised(Whole(**options))
    weights = theirs.state_dict()
    ours = imported(weights, **WHOLE, **facts)
    logits = ours(SRC, TGT, SRC != 1, TGT != 1)
    torch.testing.assert_close(logits[TGT != 1], theirs(SRC, TGT)[TGT != 1], rtol=0.0, atol=FLOAT64)
    assert ours.config.positions == ("learned" if "learned" in options else "sinusoidal")
    assert ours.config.output_bias == options.get("bias", True)

    named = {"encoder": "core.encoder", "decoder": "core.decoder", **WHOLE, "positions": facts["positions"]}
    if options.get("learned"):
        # What is written must be named as it is to be called: a table of learned positions is an embedding's weight.
        separate = options.get("separate")
        named["positions"] = ("places.weight", "tgt_places.weight") if separate else "places.weight"
    written = interop.export_state_dict("torch", ours, **named)
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[key], tensor) for key, tensor in weights.items())
    Whole(**options).double().load_state_dict(written)


def test_the_stacks_are_found_where_they_stand() -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, HEADS, 20), 2, enable_nested_tensor=False)
            self.writer = nn.TransformerDecoder(nn.TransformerDecoderLayer(D, HEADS, 20), 1)

    weights = randomised(Apart()).state_dict()
    model = imported(weights)
    assert (model.config.n_encoder_layers, model.config.n_decoder_layers) == (2, 1)
    assert not model.config.final_norm
    written = interop.export_state_dict("torch", model, encoder="reader", decoder="writer")
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[key], tensor) for key, tensor in weights.items())
    twice = {**weights, **{f"copy.{key}": tensor for key, tensor in weights.items()}}
    with pytest.raises(ConversionError, match="may each be the encoder; name one with encoder="):
        imported(twice)


def refusal(weights: dict[str, Tensor], **facts: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        imported(weights, **facts)
    return str(caught.value)


def test_what_is_not_named_is_unused() -> None:
    weights = randomised(Whole()).state_dict()
    message = refusal(weights)
    for key in ("src_words.weight", "tgt_words.weight", "pe", "out.weight", "out.bias"):
        assert key in message.partition("unused: ")[2]
    assert "unused: pe;" in refusal(weights, **WHOLE)


def test_what_is_named_must_be_there() -> None:
    weights = randomised(Whole()).state_dict()
    names = {"src_embedding": "source", "tgt_embedding": "tgt_words", "generator": "head", "positions": "places"}
    message = refusal(weights, **names)
    assert "missing: source.weight, head.weight, head.bias;" in message
    assert "positions names places, and no key is called so" in message
    assert "belong together, and only src_embedding was named" in refusal(weights, src_embedding="src_words")
    assert "one key, or the source's and the target's" in refusal(weights, **WHOLE, positions="a,b,c")
    assert "positions are learned, and no key for them was named" in refusal(weights, **WHOLE, positions="learned")


@pytest.mark.parametrize("layout", [(30, D), (30, 1, D), (1, 30, D)])
def test_a_table_of_positions_may_lie_in_any_layout(layout: tuple[int, ...]) -> None:
    weights = randomised(Whole()).state_dict()
    expected = imported(weights, **WHOLE, positions="pe")
    weights["pe"] = weights["pe"].reshape(layout)
    model = imported(weights, **WHOLE, positions="pe")
    assert model.config == expected.config
    assert torch.equal(model(SRC, TGT), expected(SRC, TGT))


def test_positions_may_be_a_kind_where_no_key_holds_them() -> None:
    weights = randomised(Whole()).state_dict()
    del weights["pe"]
    assert imported(weights, **WHOLE).config.positions == "sinusoidal"
    assert imported(weights, **WHOLE, positions="none").config.positions == "none"
    assert imported(weights, **WHOLE, positions="sinusoidal_halves").config.positions == "sinusoidal_halves"
