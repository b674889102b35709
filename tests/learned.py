"""Small models that learned a few sentences by heart: real words, and some doubt about sentences they do not know."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from bundles import SRC_TEXT, TGT_TEXT
from dragoman.bundle import Bundle
from dragoman.config import DecodeConfig, ModelConfig, TokenizerConfig
from dragoman.model import masks
from dragoman.model.transformer import Transformer
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

PAD, BOS, EOS = 1, 2, 3
RATE, SMOOTHING = 0.005, 0.05


def learned_bundle(src_lang: str = "en", tgt_lang: str = "de", *, seed: int = 3, steps: int = 60) -> Bundle:
    """A model of 32 features after so many steps (about a second) on four sentences, in either direction."""
    pair = {"en": SRC_TEXT, "de": TGT_TEXT}
    tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe", vocab_size=700, min_frequency=1), SRC_TEXT + TGT_TEXT)
    torch.manual_seed(seed)
    size = tokenizer.vocab_size
    shape = ModelConfig(
        src_vocab_size=size, tgt_vocab_size=size, d_model=32, n_heads=2, d_ff=64, max_length=64,
        n_encoder_layers=1, n_decoder_layers=1, dropout=0.0,
    )  # fmt: skip
    model = Transformer(shape)
    src, src_mask = _batch([[*tokenizer.encode(text), EOS] for text in pair[src_lang]])
    tgt, tgt_mask = _batch([[BOS, *tokenizer.encode(text), EOS] for text in pair[tgt_lang]])
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(steps):
        logits = model(src, tgt[:, :-1], src_mask, tgt_mask[:, :-1])
        seen = tgt_mask[:, 1:]
        loss = F.cross_entropy(logits[seen], tgt[:, 1:][seen], label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    return Bundle(model.eval(), tokenizers, DecodeConfig(beam_size=4), src_lang, tgt_lang, "# A card\n")


def _batch(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return ids, masks.from_lengths(lengths, longest)
