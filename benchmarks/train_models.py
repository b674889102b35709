"""A contestant of ``benchmarks/train.py``: one process that trains one model, a turn of steps at a time.

Reads a JSON line per turn from standard input and answers with one. Every contestant has the same allocator settings,
threads and float32, and computes the same kind of update: label smoothing 0.1, gradients clipped at 1, Adam. Each is
what its users run: dragoman's updates are those of its trainer.

Shapes: B batch, S source length, T target length, D width, H heads, V vocabulary.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.cli.common import prepare_runtime
from dragoman.config import ModelConfig, RunConfig
from dragoman.model.transformer import Transformer
from dragoman.text.batching import Batch, Position, TrainingBatches, collate
from dragoman.text.corpus import TokenCorpus
from dragoman.training.dealing import Share
from dragoman.training.metrics_log import NoLog
from dragoman.training.products import multiply, use_products
from dragoman.training.ranks import Ranks
from dragoman.training.report import Reporter
from dragoman.training.trainer import Trainer

SMOOTHING = 0.1
Step = Callable[[Batch], None]


# The tutorial: the paper's equations written down with PyTorch's layers, as most published code has them.


class Attention(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """[B,T,D] attends to [B,S,D] where ``mask`` [B,1,T or 1,S] is True."""
        q, k, v = (
            layer(x).view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)
            for layer, x in ((self.q, query), (self.k, memory), (self.v, memory))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, d: int, heads: int, d_ff: int, dropout: float, crosses: bool) -> None:
        super().__init__()
        self.attention = Attention(d, heads)
        self.cross = Attention(d, heads) if crosses else None
        self.feed_forward = nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Linear(d_ff, d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 + crosses))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, src_mask: Tensor | None = None) -> Tensor:
        x = self.norms[0](x + self.dropout(self.attention(x, x, mask)))
        if self.cross is not None and memory is not None and src_mask is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, memory, src_mask)))
        return self.norms[-1](x + self.dropout(self.feed_forward(x)))


class Tutorial(nn.Module):
    def __init__(self, shape: dict[str, Any]) -> None:
        super().__init__()
        d, v = shape["d_model"], shape["vocab_size"]
        self.embedding = nn.Embedding(v, d, padding_idx=1)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        sizes = (d, shape["n_heads"], shape["d_ff"], shape["dropout"])
        self.encoder = nn.ModuleList(Layer(*sizes, crosses=False) for _ in range(shape["n_encoder_layers"]))
        self.decoder = nn.ModuleList(Layer(*sizes, crosses=True) for _ in range(shape["n_decoder_layers"]))
        self.dropout = nn.Dropout(shape["dropout"])
        angles = torch.arange(512)[:, None] / 10_000 ** (torch.arange(0, d, 2) / d)
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))

    def embed(self, ids: Tensor) -> Tensor:
        width = self.embedding.embedding_dim
        return self.dropout(self.embedding(ids) * math.sqrt(width) + self.positions[: ids.shape[1]])

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """[B,S], [B,T] -> logits [B,T,V]."""
        src_mask = (src != 1)[:, None, None]
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()
        tgt_mask = (tgt != 1)[:, None, None] & causal
        x, y = self.embed(src), self.embed(tgt)
        for layer in self.encoder:
            x = layer(x, src_mask)
        for layer in self.decoder:
            y = layer(y, tgt_mask, x, src_mask)
        return F.linear(y, self.embedding.weight)


# The contestants' updates


def dragoman_step(shape: dict[str, Any], corpus: TokenCorpus) -> Step:
    """An update of ``dragoman train``, the average of the weights included, which the other two do not keep."""
    settings = {
        "max_steps": 1 << 40, "lr": 1e-4, "schedule": "constant", "warmup_steps": 0, "label_smoothing": SMOOTHING,
        "clip_norm": 1.0, "ema": 0.999, "batch_tokens": shape["batch_tokens"],
    }  # fmt: skip
    config = model_config(shape)
    run = RunConfig(data={"train": {"src": "-", "tgt": "-"}}, model=config, train=settings)
    model = Transformer(config).train()
    use_products(model)
    batches = TrainingBatches(corpus, config, shape["batch_tokens"], seed=1)
    cpu, quiet = torch.device("cpu"), Reporter(quiet=True)
    trainer = Trainer(run, model, batches, len(corpus), cpu, NoLog(Path()), quiet, Ranks())

    def step(batch: Batch) -> None:
        share = Share([batch], len(batch.indices), Position(), epoch_ends=False)
        trainer.update(share, batch.n_tgt_tokens, batch.n_src_tokens + batch.n_tgt_tokens)

    return step


def marian_step(shape: dict[str, Any], _: TokenCorpus) -> Step:
    """Hugging Face's MarianMTModel, updated as its Seq2SeqTrainer does with label_smoothing_factor=0.1."""
    from transformers import MarianConfig, MarianMTModel
    from transformers.trainer_pt_utils import LabelSmoother

    d, v, heads, d_ff = (shape[name] for name in ("d_model", "vocab_size", "n_heads", "d_ff"))
    config = MarianConfig(
        vocab_size=v, d_model=d, encoder_layers=shape["n_encoder_layers"], decoder_layers=shape["n_decoder_layers"],
        encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=d_ff, decoder_ffn_dim=d_ff,
        activation_function="relu", dropout=shape["dropout"], attention_dropout=0.0, scale_embedding=True,
        pad_token_id=1, eos_token_id=3, decoder_start_token_id=2, forced_eos_token_id=None, use_cache=False,
    )  # fmt: skip
    model = MarianMTModel(config).train()
    smoother = LabelSmoother(epsilon=SMOOTHING)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def step(batch: Batch) -> None:
        src_mask, tgt_mask = (
            torch.ones_like(ids) if mask is None else mask.long()
            for ids, mask in ((batch.src, batch.src_mask), (batch.tgt_in, batch.tgt_mask))
        )
        out = model(
            input_ids=batch.src, attention_mask=src_mask, decoder_input_ids=batch.tgt_in,
            decoder_attention_mask=tgt_mask,
        )  # fmt: skip
        loss = smoother({"logits": out.logits}, batch.tgt_out.masked_fill(tgt_mask == 0, -100))
        loss.backward()
        loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def tutorial_step(shape: dict[str, Any], _: TokenCorpus) -> Step:
    """All logits, CrossEntropyLoss, torch's Adam as it comes."""
    model = Tutorial(shape).train()
    criterion = nn.CrossEntropyLoss(ignore_index=1, label_smoothing=SMOOTHING)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step(batch: Batch) -> None:
        logits = model(batch.src, batch.tgt_in)
        loss = criterion(logits.flatten(0, 1), batch.tgt_out.flatten())
        optimizer.zero_grad()
        loss.backward()
        loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


STEPS = {"dragoman": dragoman_step, "marian": marian_step, "tutorial": tutorial_step}


# Their batches


def model_config(shape: dict[str, Any]) -> ModelConfig:
    names = ("d_model", "n_heads", "n_encoder_layers", "n_decoder_layers", "d_ff", "dropout")
    return ModelConfig(
        src_vocab_size=shape["vocab_size"], tgt_vocab_size=shape["vocab_size"], tie_embeddings="all",
        attention_dropout=0.0, activation_dropout=0.0, **{name: shape[name] for name in names},
    )  # fmt: skip


def own_batches(corpus: TokenCorpus, shape: dict[str, Any]) -> Iterator[Batch]:
    """Sentences of like length under a token budget: dragoman's."""
    for batch, _ in TrainingBatches(corpus, model_config(shape), shape["batch_tokens"], seed=1).iterate():
        yield batch


def random_batches(corpus: TokenCorpus, shape: dict[str, Any]) -> Iterator[Batch]:
    """So many sentences in random order, padded: as many as an average batch of dragoman's holds."""
    config = model_config(shape)
    sizes = [len(batch.indices) for batch in TrainingBatches(corpus, config, shape["batch_tokens"], 1).epoch_batches(0)]
    size = round(sum(sizes) / len(sizes))
    draw = np.random.default_rng(1)
    while True:
        order = draw.permutation(len(corpus))
        for begin in range(0, len(order) - size + 1, size):
            chosen = order[begin : begin + size].tolist()
            yield collate([corpus.pair(index) for index in chosen], config, chosen)


def flops(batch: Batch, shape: dict[str, Any]) -> float:
    """Operations of the matrix products that an update needs, at real tokens alone; backward is twice forward.

    Twice the multiplications: attention projections 4D² a token and layer (of cross-attention 2D² each side), feed
    forward 2·D·F, output D·V, and the products of queries, keys and values; a causal row meets half of the keys.
    """
    d, f, v = shape["d_model"], shape["d_ff"], shape["vocab_size"]
    encoders, decoders = shape["n_encoder_layers"], shape["n_decoder_layers"]
    lengths = [
        np.full(len(ids), ids.shape[1]) if mask is None else mask.sum(1).numpy()
        for ids, mask in ((batch.src, batch.src_mask), (batch.tgt_in, batch.tgt_mask))
    ]
    s, t = (side.astype(np.float64) for side in lengths)
    encoder = s * (4 * d * d + 2 * d * f) + 2 * s * s * d
    decoder = t * (6 * d * d + 2 * d * f) + 2 * s * d * d + t * (t + 1) * d + 2 * s * t * d
    return float(6 * (encoders * encoder + decoders * decoder + t * d * v).sum())


def peak(clock: str) -> float:
    """The most operations a second that a float32 product of large square matrices reaches here.

    Several sizes, by PyTorch's own products (MKL) and by oneDNN's: which is the faster depends on the processor.
    """
    best, now = 0.0, {"wall": time.perf_counter, "cpu": time.process_time}[clock]
    for size in (1024, 2048):
        a, b = torch.randn(size, size), torch.randn(size, size)
        for product in (torch.mm, multiply):
            for _ in range(5):
                begun = now()
                product(a, b)
                best = max(best, 2 * size**3 / (now() - begun))
    return best


def main() -> None:
    model, kind, folder, shape_text, threads = sys.argv[1:]
    shape = json.loads(shape_text)
    prepare_runtime()
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    corpus = TokenCorpus.open(folder)
    batches = (own_batches if kind == "ours" else random_batches)(corpus, shape)
    step = STEPS[model](shape, corpus)
    for line in sys.stdin:
        job = json.loads(line)
        if job["kind"] == "peak":
            print(json.dumps({"peak": peak(job["clock"])}), flush=True)
            continue
        turn = [next(batches) for _ in range(job["steps"])]
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in turn:
            step(batch)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        places = sum(batch.src.numel() + batch.tgt_in.numel() for batch in turn)
        answer = {
            "wall": wall, "cpu": cpu, "tokens": sum(batch.n_src_tokens + batch.n_tgt_tokens for batch in turn),
            "places": places, "flops": sum(flops(batch, shape) for batch in turn),
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }  # fmt: skip
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
