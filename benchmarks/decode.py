"""Decoding side by side: dragoman's engine, ``transformers``' MarianMT ``generate``, CTranslate2; float32 and int8.

    python benchmarks/decode.py [--threads 1 2] [--rounds 9] [--only base,batch-1]
    python benchmarks/decode.py --end-to-end MODEL --src FILE [--ref FILE]

The same weights through the converters (random ones of the shapes below, or those of a model directory), the same
sentences, the same number of target tokens forced; the outputs are compared. Each contestant is a process of its own;
they take turns, and the ratios are taken turn by turn: median, and the middle half of the turns in brackets. Above 1
dragoman is faster. Times are process CPU seconds; with several threads, or --wall, wall seconds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contestants import Contestant, spread

WORKER = Path(__file__).with_name("decode_engines.py")
SHAPES: dict[str, dict[str, int]] = {
    "base": {"d_model": 512, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 2048,
             "vocab_size": 32000},
    "tiny": {"d_model": 128, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4, "d_ff": 256,
             "vocab_size": 10000},
}  # fmt: skip
# Name, sentences, beam, target tokens, repetitions inside one turn.
ROWS: dict[str, list[tuple[str, int, int, int, int]]] = {
    "base": [("batch-32 greedy", 32, 1, 20, 1), ("batch-32 beam-5", 32, 5, 20, 1), ("batch-1 greedy", 1, 1, 20, 3),
             ("batch-1 beam-5", 1, 5, 20, 3)],
    "tiny": [("batch-32 beam-5", 32, 5, 20, 2), ("batch-1 greedy", 1, 1, 20, 20)],
}  # fmt: skip
FIELD = [("dragoman", "fp32"), ("dragoman", "compiled"), ("generate", "fp32"), ("ctranslate2", "fp32"),
         ("dragoman", "int8"), ("ctranslate2", "int8")]  # fmt: skip
PAIRS = [(("dragoman", "fp32"), ("generate", "fp32")), (("dragoman", "fp32"), ("ctranslate2", "fp32")),
         (("dragoman", "compiled"), ("generate", "fp32")), (("dragoman", "compiled"), ("ctranslate2", "fp32")),
         (("dragoman", "int8"), ("ctranslate2", "int8"))]  # fmt: skip


def contestant(name: str, precision: str, folder: Path, threads: int) -> Contestant:
    return Contestant(WORKER, [name, precision, str(folder), str(threads)], threads)


def take_turns(workers: dict[Any, Contestant], job: dict[str, Any], rounds: int, repeat: int) -> dict[Any, Any]:
    """Seconds of each contestant in each turn, ``cpu`` and ``wall``, and its output."""
    result: dict[Any, Any] = {}
    for key, worker in workers.items():
        answer = worker.ask(**job)
        result[key] = {"cpu": [], "wall": [], "out": answer["out"], "rss": 0.0}
    for _ in range(rounds):
        for key, worker in workers.items():
            answers = [worker.ask(**job) for _ in range(repeat)]
            for clock in ("cpu", "wall"):
                result[key][clock].append(statistics.median(answer[clock] for answer in answers))
            result[key]["rss"] = answers[-1]["rss"]
    return result


def report(row: str, result: dict[Any, Any], clock: str, unit: int) -> None:
    """One line of ratios, one of milliseconds per ``unit`` (0: seconds in all) and of equal outputs."""
    cells = []
    for one, other in PAIRS:
        if one in result and other in result:
            ratios = [theirs / ours for ours, theirs in zip(result[one][clock], result[other][clock], strict=True)]
            cells.append(f"{one[1]} vs {other[0]} {spread(ratios, 5)}")
    print(f"{row:<24}{' | '.join(cells)}", flush=True)
    first = next(iter(result.values()))["out"]
    details = []
    for (name, precision), one in result.items():
        seconds = statistics.median(one[clock])
        took = f"{1000 * seconds / unit:.2f} ms" if unit else f"{seconds:.1f} s"
        same = sum(a == b for a, b in zip(first, one["out"], strict=True))
        details.append(f"{name} {precision} {took}, {same}/{len(first)} alike, {one['rss']:.0f} MB")
    print(f"{'':<24}{'; '.join(details)}", flush=True)


def sources(count: int, vocabulary: int, data: Path | None) -> list[list[int]]:
    """Random ids of seeded lengths, ``</s>`` to come; with ``data`` the lengths of that file's lines in words."""
    draw = random.Random(0)
    if data is None:
        lengths = [draw.randint(10, 24) for _ in range(count)]
    else:
        lengths = [len(line.split()) for line in draw.sample(read_lines(data), count)]
    return [[draw.randrange(4, vocabulary) for _ in range(length)] for length in lengths]


def read_lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        return stream.read().splitlines()


def prepare(folder: Path, shape: dict[str, int] | None) -> None:
    command = [sys.executable, "-W", "ignore", str(WORKER), "prepare", str(folder), json.dumps(shape)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def compare_shapes(args: argparse.Namespace, scratch: Path) -> None:
    for shape, rows in ROWS.items():
        wanted = [row for row in rows if all(part in f"{shape} {row[0]}" for part in args.only.split(","))]
        if not wanted:
            continue
        folder = scratch / shape
        prepare(folder, SHAPES[shape])
        # Only the steps of a single hypothesis are compiled; elsewhere it would be one contestant twice.
        field = [key for key in FIELD if key[1] != "compiled" or any(row[1] * row[2] == 1 for row in wanted)]
        for threads in args.threads:
            clock = "wall" if args.wall or threads > 1 else "cpu"
            workers = {key: contestant(*key, folder, threads) for key in field}
            for name, count, beam, length, repeat in wanted:
                ids = sources(count, SHAPES[shape]["vocab_size"], args.data)
                job = {"kind": "forced", "sources": ids, "beam": beam, "length": length}
                result = take_turns(workers, job, args.rounds, repeat)
                report(f"{shape} {name} {threads}t", result, clock, length)
            for worker in workers.values():
                worker.close()


def compare_end_to_end(args: argparse.Namespace, scratch: Path) -> None:
    folder = scratch / "model"
    shutil.copytree(args.end_to_end, folder)
    prepare(folder, None)
    field = FIELD if (folder / "marian").exists() else [key for key in FIELD if key[0] != "generate"]
    texts = read_lines(args.src)
    for threads in args.threads:
        clock = "wall" if args.wall or threads > 1 else "cpu"
        workers = {key: contestant(*key, folder, threads) for key in field}
        result = take_turns(
            workers, {"kind": "translate", "texts": texts, "beam": 5, "stop_after": args.stop_after}, args.rounds, 1
        )
        report(f"end to end {threads}t", result, clock, 0)
        for worker in workers.values():
            worker.close()
    if args.ref is not None:
        from sacrebleu.metrics import BLEU

        for key, one in result.items():
            print(" ".join(key), BLEU().corpus_score(one["out"], [read_lines(args.ref)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="rows whose name holds all of these, parted by commas")
    parser.add_argument("--data", type=Path, help="a text file, for the lengths of the sources")
    parser.add_argument("--wall", action="store_true", help="wall seconds with one thread too")
    parser.add_argument("--end-to-end", type=Path, metavar="MODEL", help="a model directory: text to text instead")
    parser.add_argument(
        "--stop-after", type=int, default=0, help="dragoman's setting, end to end; 5 is the peers' own stopping rule"
    )
    parser.add_argument("--src", type=Path)
    parser.add_argument("--ref", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if args.end_to_end is None:
            compare_shapes(args, Path(scratch))
        else:
            compare_end_to_end(args, Path(scratch))


if __name__ == "__main__":
    main()
