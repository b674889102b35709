"""The searches over a real Transformer: its cache, padding and batches change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import DecodeConfig, ModelConfig
from dragoman.decoding import Hypothesis, Phrase, score_targets, search
from dragoman.model.transformer import Transformer
from tolerances import LOGPROB, REORDERED

SOURCES = [[5, 6, 7, 8, 3], [9, 3], [4, 4, 10, 3], [11, 5, 9, 6, 8, 7, 3]]
CONFIGS = [
    DecodeConfig(beam_size=1),
    DecodeConfig(beam_size=4, n_best=3),
    DecodeConfig(beam_size=3, length_norm="power", length_penalty=0.6, min_length=3, no_repeat_ngram=2),
    DecodeConfig(sample=True, n_best=2, top_k=6),
    DecodeConfig(beam_size=3, n_best=2),
]
NAMES = ["greedy", "beam", "rules", "sample", "phrases"]
# Of each source, what has to appear with the last of the configurations.
PHRASES = [[Phrase(((9, 10),))], [Phrase(((7,),), 2), Phrase(((8, 7),))], [Phrase(((13, 13, 13),))], [Phrase(((5,),))]]


def make_model(positions: str = "sinusoidal") -> Transformer:
    torch.manual_seed(3)
    config = ModelConfig(
        src_vocab_size=12, tgt_vocab_size=14, d_model=16, n_heads=2, d_ff=24, n_encoder_layers=2, n_decoder_layers=2,
        positions=positions, output_bias=True,
    )  # fmt: skip
    model = Transformer(config).eval()
    # A fresh model repeats itself to the limit; a wider output and a likelier </s> give translations of every length.
    with torch.no_grad():
        model.output.weight.mul_(4.0)
        model.output.bias[3] = 1.5
    return model


class Recomputing:
    """A step without a cache: everything since <s> is computed again, from the rows' tokens."""

    def __init__(self, model: Transformer, memory: Tensor, src_mask: Tensor) -> None:
        self.model = model
        self.source = torch.arange(len(memory))
        self.memory = memory
        self.src_mask = src_mask
        self.tokens = torch.empty(len(memory), 0, dtype=torch.int64)

    def __call__(self, tokens: Tensor, state: Any, parents: Tensor | None = None) -> Tensor:
        if parents is not None:
            self.tokens, self.source = self.tokens[parents], self.source[parents]
        self.tokens = torch.cat([self.tokens, tokens[:, None]], dim=1)
        hidden = self.model.decode(self.tokens, self.memory[self.source], self.src_mask[self.source])
        return self.model.project(hidden[:, -1])


def padded(sources: Sequence[Sequence[int]], length: int = 0) -> tuple[Tensor, Tensor]:
    width = max([length, *map(len, sources)])
    ids = torch.tensor([[*source, *[1] * (width - len(source))] for source in sources])
    return ids, torch.tensor([[n < len(source) for n in range(width)] for source in sources])


@torch.no_grad()
def translate(
    model: Transformer, lines: Sequence[int], config: DecodeConfig, *, cached: bool = True, length: int = 0
) -> list[list[Hypothesis]]:
    sources = [SOURCES[line] for line in lines]
    src, src_mask = padded(sources, length)
    memory = model.encode(src, src_mask)
    step: Any = model.step if cached else Recomputing(model, memory, src_mask)
    state = model.start(memory, src_mask) if cached else None
    more: dict[str, Any] = {"bos_id": 2, "eos_id": 3, "forbidden": [0, 1, 2]}
    more["limits"] = [config.limit(len(source)) for source in sources]
    if config.n_best == 2 and not config.sample:
        more["phrases"] = [PHRASES[line] for line in lines]
    return search(step, state, len(sources), config, line_numbers=lines, **more)


def assert_same(found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [one.tokens for one in some] == [one.tokens for one in others]
        for one, other in zip(some, others, strict=True):
            assert one.finished == other.finished
            assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=REORDERED)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_cached_is_recomputed_and_batched_is_single(config: DecodeConfig, positions: str) -> None:
    model = make_model(positions)
    found = translate(model, [0, 1, 2, 3], config)
    assert len({len(one.tokens) for copies in found for one in copies}) > 1  # they do not all run to the limit
    assert_same(translate(model, [0, 1, 2, 3], config, cached=False), found)
    assert_same(translate(model, [2, 3, 0, 1], config), [found[line] for line in (2, 3, 0, 1)])
    for line in range(4):
        assert_same(translate(model, [line], config), [found[line]])
        assert_same(translate(model, [line], config, length=11), [found[line]])


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
@torch.no_grad()
def test_reported_scores_are_those_of_forcing_by_steps_and_in_one_pass(config: DecodeConfig) -> None:
    model = make_model()
    src, src_mask = padded(SOURCES)
    for best in zip(*translate(model, [0, 1, 2, 3], config), strict=True):
        state = model.start(model.encode(src, src_mask), src_mask)
        forced = score_targets(model.step, state, [one.tokens for one in best], config, bos_id=2, eos_id=3)
        for source, one, other in zip(SOURCES, best, forced, strict=True):
            assert other.finished == one.finished
            assert other.score == pytest.approx(one.score, abs=LOGPROB)
            tgt = torch.tensor([[2, *one.tokens[:-1]]])
            logprobs = model(torch.tensor([source]), tgt)[0].log_softmax(-1)
            expected = logprobs.gather(1, torch.tensor(one.tokens)[:, None])[:, 0].tolist()
            assert one.token_logprobs == pytest.approx(expected, abs=REORDERED)
            assert one.logprob == pytest.approx(sum(expected), abs=LOGPROB)
