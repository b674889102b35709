"""Matrix products of training: PyTorch's own against oneDNN's (dragoman.training.products), in GFLOP/s.

    python benchmarks/products.py [--threads 1]

Forward, gradient of the input, gradient of the weight, for the shapes of the tiny and the base model with the rows of
a training batch. The two take turns; the median of the turns.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from dragoman.training.products import multiply, multiply_rows

# Rows, inputs, outputs; the last of each size is a chunk of the output projection.
SHAPES = {
    "tiny": [(2560, 128, 128), (2560, 128, 256), (2560, 256, 128), (700, 128, 6000)],
    "base": [(1536, 512, 512), (1536, 512, 2048), (1536, 2048, 512), (512, 512, 8000)],
}
TURNS = 15


def seconds(work: Callable[[], object], repeat: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - begin) / repeat


def compare(rows: int, inputs: int, outputs: int) -> list[str]:
    """A cell for each of the three products: both speeds and how many times oneDNN is as fast."""
    x, weight, bias, push = (
        torch.randn(*size) for size in ((rows, inputs), (outputs, inputs), (outputs,), (rows, outputs))
    )
    pairs: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (lambda: F.linear(x, weight, bias), lambda: multiply(x, weight, bias)),
        (lambda: push @ weight, lambda: multiply(push, weight.t())),
        (lambda: push.t() @ x, lambda: multiply_rows(push, x)),
    ]
    flops = 2.0 * rows * inputs * outputs
    cells = []
    for pair in pairs:
        repeat = max(1, round(2e9 / flops))
        turns = [[seconds(work, repeat) for work in pair] for _ in range(TURNS + 2)][2:]
        own, fast = (flops / statistics.median(turn[side] for turn in turns) / 1e9 for side in (0, 1))
        cells.append(f"{own:.0f} / {fast:.0f} ({statistics.median(a / b for a, b in turns):.2f})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{platform.machine()}, {args.threads} threads, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}\n")
    print("| model | rows, inputs, outputs | forward | by the input | by the weight |")
    print("| --- | --- | ---: | ---: | ---: |")
    for model, shapes in SHAPES.items():
        for shape in shapes:
            print(f"| {model} | {', '.join(map(str, shape))} | {' | '.join(compare(*shape))} |", flush=True)


if __name__ == "__main__":
    main()
