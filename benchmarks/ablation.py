"""What each choice of a recipe gives: the recipe again and again, one thing changed in each run.

    python benchmarks/ablation.py [RECIPE] --data DIR --out RUNS [--minutes 12 | --updates N] [--only NAME ...]

DIR is the recipe's data.dir. The runs lie under RUNS and are trained one after the other with one thread, each in a
process of its own. A run that has its test scores already is not trained again and one that was stopped goes on, so
the script can be stopped and called again. It prints one row for each run: updates, epochs and median speed,
the best validation loss, BLEU and chrF of the recipe's test set, and the difference of BLEU to the recipe as it
stands. The row of a run that failed says so, the others go on, and the exit code is 1 at the end. So much less time
than the recipe's favours what learns fast: the differences are those of a short training.

All runs get the same minutes, or with --updates the same number of updates, which is what a machine with other work
can compare; the speed is then a column to read with care.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

RECIPE = Path(__file__).parent.parent / "recipes" / "multi30k-en-de.yaml"
BASE = "as it stands"
# Of one run: a name for the table, and what it changes.
VARIANTS: dict[str, list[str]] = {
    BASE: [],
    "BPE-dropout 0.1": ["tokenizer.bpe_dropout=0.1"],
    "a vocabulary of 3,000": ["tokenizer.vocab_size=3000"],
    "a vocabulary of 10,000": ["tokenizer.vocab_size=10000"],
    "no average of the weights": ["train.ema=0"],
    "the last 5 checkpoints averaged": ["train.ema=0", "train.average_last=5", "train.save_every=150"],
    "post-norm": ["model.norm_first=false", "model.final_norm=false"],
    "sinusoids added to the embeddings": ["model.positions=sinusoidal"],
    "embeddings tied in the decoder alone": ["model.tie_embeddings=decoder", "tokenizer.joint=false"],
    "dropout 0.1": ["model.dropout=0.1"],
    "no label smoothing": ["train.label_smoothing=0.0"],
    "rate 0.002": ["train.lr=0.002"],
    "inverse square root of the step": ["train.schedule=inverse_sqrt"],
    "batches twice as large": ["train.batch_tokens=4096"],
    "d_model 192, d_ff 384": ["model.d_model=192", "model.d_ff=384"],
    "SwiGLU and RMS norm": ["model.feed_forward=swiglu", "model.norm=rms"],
}


def finished(run: Path) -> dict[str, Any] | None:
    """The scores of a run that has ended: its last update, best validation loss, test BLEU and chrF."""
    path = run / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    tests = [row for row in rows if row["kind"] == "test"]
    if not tests:
        return None
    checks = [row for row in rows if row["kind"] == "valid"]
    speed = statistics.median(row["tokens_per_second"] for row in rows if row["kind"] == "train")
    return {**checks[-1], "speed": speed, "loss": min(row["loss"] for row in checks), "bleu": tests[-1]["bleu"],
            "chrf": tests[-1]["chrf"]}  # fmt: skip


def train(recipe: Path, data: Path, budget: list[str], changes: list[str], run: Path) -> str | None:
    """Train one run to its end, or go on with one that was stopped; what went wrong, if anything did."""
    settings = [f"data.dir={data}", *budget, "train.threads=1", *changes]
    command = [sys.executable, "-m", "dragoman", "train", str(recipe), *settings, "--out", str(run)]
    if (run / "config.yaml").exists():
        command.append("--resume")
    log = run.with_suffix(".log")
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(command, stderr=file, stdout=file, check=False)
    return f"failed with exit code {done.returncode}; {log} says why" if done.returncode else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, nargs="?", default=RECIPE)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=12.0)
    length.add_argument("--updates", type=int)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="NAME")
    args = parser.parse_args()
    budget = [f"train.max_minutes={args.minutes}"]
    if args.updates:
        budget = ["train.max_minutes=null", f"train.max_steps={args.updates}"]
    args.out.mkdir(parents=True, exist_ok=True)
    print("| changed | updates | epochs | tokens/s | validation loss | BLEU | chrF | BLEU beside the recipe's |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    base = None
    failures = 0
    for name in args.only:
        run = args.out / "".join(letter if letter.isalnum() else "-" for letter in name.lower())
        failure = None
        if finished(run) is None:
            failure = train(args.recipe, args.data, budget, VARIANTS[name], run)
        scores = finished(run)
        if failure or scores is None:
            failures += 1
            print(f"| {name} | {failure or 'no test scores: the recipe must name data.test'} | | | | | | |", flush=True)
            continue
        base = scores["bleu"] if name == BASE else base
        beside = "" if base is None or name == BASE else f"{scores['bleu'] - base:+.1f}"
        cells = [name, f"{scores['step']:,}", f"{scores['epoch']:.1f}", f"{scores['speed']:,.0f}",
                 f"{scores['loss']:.3f}", f"{scores['bleu']:.2f}", f"{scores['chrf']:.2f}", beside]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
