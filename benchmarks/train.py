"""Training speed side by side: dragoman, Hugging Face's Marian, and a tutorial-style model; tokens that are no padding.

    python benchmarks/train.py [--data DIR] [--shapes tiny base] [--threads 1 2] [--rounds 7] [--steps 8] [--quick]

DIR holds train.en and train.de (plain or .gz); without it the bundled phrasebook is the text. The same text, tokens,
sizes, dropout, threads and their way of waiting for each other, allocator settings and float32 for all. Each contestant
is a process of its own, and its updates are what its users run: dragoman's are those of ``dragoman train``, an average
of the weights included. They take turns, and the ratios are taken turn by turn: median, and the middle half of the
turns in brackets; above 1 dragoman is faster. Times are process CPU seconds; with several threads, or --wall, wall
seconds. Making batches is not timed.

``random batches`` have the sentences in random order, as many as an average batch of dragoman's; ``our batches`` are
dragoman's. Tokens are those of source and target that are no padding. Memory is each process's largest resident size.
The share of the peak counts the matrix products that the real tokens need, against the fastest product of large
matrices that this machine was seen to do with these threads, by MKL or by oneDNN.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from contestants import Contestant, spread

from dragoman.cli.common import is_shared

WORKER = Path(__file__).with_name("train_models.py")
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4, "d_ff": 256, "dropout": 0.1,
             "batch_tokens": 2560},
    "base": {"d_model": 512, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 2048, "dropout": 0.1,
             "batch_tokens": 1536},
}  # fmt: skip
# An update of the base size takes so many times longer that a turn has fewer.
SHARE_OF_STEPS = {"tiny": 1.0, "base": 0.25}
VOCABULARY = 10_000
# What GNU's OpenMP does where nothing is said.
USUAL_SPINS = "300000"
FIELD = {
    ("dragoman", "ours"): "dragoman",
    ("marian", "random"): "Marian, random batches",
    ("marian", "ours"): "Marian, our batches",
    ("tutorial", "random"): "tutorial, random batches",
    ("tutorial", "ours"): "tutorial, our batches",
}
OURS = ("dragoman", "ours")


def prepare(data: Path | None, folder: Path) -> tuple[int, int]:
    """Tokenise the text into ``folder``; the number of pairs and the size of the vocabulary."""
    from dragoman.config import DataConfig, TextCorpus, TokenizerConfig
    from dragoman.text.corpus import write_corpus
    from dragoman.text.readers import read_pairs
    from dragoman.text.tokenizer import train_tokenizers

    if data is None:
        from dragoman.phrasebook import generate

        pairs = [(pair.src, pair.tgt) for pair in generate(20_000, 100, 100, seed=1).train]
        corpus = TextCorpus(src="phrasebook", tgt="phrasebook")
    else:
        names = [next(str(path) for path in sorted(data.glob(f"train.{side}*"))) for side in ("en", "de")]
        corpus = TextCorpus(src=names[0], tgt=names[1])
        pairs = list(read_pairs(corpus))
    tokenizers = train_tokenizers(TokenizerConfig(vocab_size=VOCABULARY), lambda: iter(pairs))
    tokens = write_corpus(pairs, tokenizers, DataConfig(train=corpus), folder)
    return len(tokens), tokenizers.src.vocab_size


def compare(name: str, folder: Path, shape: dict[str, Any], threads: int, rounds: int, steps: int, clock: str) -> None:
    """Take turns and print the rows of one size with one number of threads."""
    arguments = [str(folder), json.dumps(shape), str(threads)]
    contestants = {key: Contestant(WORKER, [*key, *arguments], threads) for key in FIELD}
    turns: dict[tuple[str, str], list[dict[str, float]]] = {key: [] for key in FIELD}
    peaks = [contestants[OURS].ask(kind="peak", clock=clock)["peak"]]
    for number in range(rounds + 1):
        for key, contestant in contestants.items():
            answer = contestant.ask(kind="train", steps=steps)
            # The first turn warms up: allocations, kernels, page faults.
            if number:
                turns[key].append(answer)
        peaks.append(contestants[OURS].ask(kind="peak", clock=clock)["peak"])
    for contestant in contestants.values():
        contestant.close()

    def speeds(key: tuple[str, str]) -> list[float]:
        return [turn["tokens"] / turn[clock] for turn in turns[key]]

    for key, label in FIELD.items():
        own = turns[key]
        ratios = "1" if key == OURS else spread([a / b for a, b in zip(speeds(OURS), speeds(key), strict=True)])
        padding = 1 - sum(turn["tokens"] for turn in own) / sum(turn["places"] for turn in own)
        share = statistics.median(turn["flops"] / turn[clock] for turn in own) / max(peaks)
        cells = [
            name, str(threads), label, f"{statistics.median(speeds(key)):,.0f}", ratios, f"{100 * padding:.1f} %",
            f"{100 * share:.0f} %", f"{max(turn['memory'] for turn in own):,.0f} MB",
        ]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"measured peak with {threads} threads: {max(peaks) / 1e9:.0f} GFLOP/s", file=sys.stderr)


def wait_alike(threads: int) -> str:
    """Have the threads of all contestants wait for each other as the command would now; how that is."""
    if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        return "as the environment says"
    if is_shared(threads):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        return "asleep, as others compute too"
    os.environ["GOMP_SPINCOUNT"] = USUAL_SPINS
    return "spinning"


def machine() -> str:
    """The processor, its threads, the load, the versions and the day."""
    import torch
    import transformers

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    processor = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{processor}, {os.cpu_count()} logical CPUs{load}; Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}, transformers {transformers.__version__}; {time.strftime('%Y-%m-%d')}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contestant, after one to warm up")
    parser.add_argument("--steps", type=int, default=12, help="updates in a turn (base: a quarter)")
    parser.add_argument("--wall", action="store_true", help="wall seconds with one thread too")
    parser.add_argument("--quick", action="store_true", help="few short turns: whether it runs, not how fast")
    args = parser.parse_args()
    rounds, steps = (2, 2) if args.quick else (args.rounds, args.steps)
    waiting = wait_alike(max(args.threads))
    with tempfile.TemporaryDirectory() as scratch:
        pairs, vocabulary = prepare(args.data, Path(scratch) / "corpus")
        print(f"{machine()}\n\n{pairs:,} pairs of {args.data.name if args.data else 'the phrasebook'}, "
              f"{vocabulary:,} tokens; {rounds} turns; threads wait {waiting}\n")  # fmt: skip
        print("| size | threads | contestant | tokens/s | dragoman is faster by | padding | of the peak | memory |")
        print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
        for name in args.shapes:
            shape = {**SHAPES[name], "vocab_size": vocabulary}
            if args.quick:
                shape["batch_tokens"] //= 4
            for threads in args.threads:
                per_turn = max(1, round(steps * SHARE_OF_STEPS[name]))
                clock = "wall" if args.wall or threads > 1 else "cpu"
                compare(name, Path(scratch) / "corpus", shape, threads, rounds, per_turn, clock)


if __name__ == "__main__":
    main()
