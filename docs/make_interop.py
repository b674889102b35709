"""Write the table of ``docs/interop.md``: each format against the numbers of the code it belongs to.

Run as ``make interop-table`` from a checkout: the golden files and the small models are the tests' own.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch

FOLDER = Path(__file__).parent
PAGE = FOLDER / "interop.md"
START, END = "<!-- table: make interop-table -->", "<!-- end of table -->"

sys.path.insert(0, str(FOLDER.parent / "tests"))

import live  # noqa: E402  # the tests' own modules, found by the line above
from dragoman import Transformer, interop  # noqa: E402
from dragoman.files import write_text  # noqa: E402
from goldens import CASES, TORCH_CASES, Case, tensors  # noqa: E402


@dataclass
class Row:
    """One line of the table; a difference is the largest, None where it was not asked."""

    format: str
    against: str
    f64: float | None
    f32: float | None
    greedy: str
    round_trip: str

    def __str__(self) -> str:
        shown = ["–" if value is None else f"{value:.1e}" for value in (self.f64, self.f32)]
        return f"| {self.format} | {self.against} | {shown[0]} | {shown[1]} | {self.greedy} | {self.round_trip} |"


def difference(case: Case, dtype: torch.dtype) -> float:
    """The largest difference between our logits (of ``torch``: the stacks' output) and the golden ones."""
    model = case.model(dtype)
    if case.format == "torch":
        golden = tensors(case.name)
        src, tgt = (golden[f"input/{name}"].to(dtype) for name in ("source", "target"))
        real = ~golden["input/source_padding"]
        ours = model.decoder(tgt, model.encoder(src, real), real, ~golden["input/target_padding"])
        theirs, rows = case.get(dtype, "output"), torch.ones(ours.shape[:2], dtype=torch.bool)
    else:
        ours = model(case.ids("source"), case.ids("target_in"), *case.masks(model))
        theirs, rows = case.get(dtype, "logits"), case.real(model)[1]
    assert theirs is not None
    return (ours - theirs)[rows].abs().max().item()


def greedy(case: Case) -> str:
    """How many of the golden greedy translations we make, in float32."""
    if case.format == "torch":
        return "–"
    model = case.model(torch.float32)
    wanted = [tensors(case.name).get(f"greedy/{case.variant}/{row}") for row in range(len(case.ids("source")))]
    if wanted[0] is None:
        return "–"
    src, mask = case.ids("source"), case.masks(model)[0]
    same = sum(
        _greedy(model, src[row : row + 1], mask[row : row + 1]) == ids.tolist()
        for row, ids in enumerate(wanted)
        if ids is not None
    )
    return f"{same} of {len(wanted)}"


def _greedy(model: Transformer, src: torch.Tensor, mask: torch.Tensor, limit: int = 10) -> list[int]:
    state = model.start(model.encode(src, mask), mask)
    ids = [model.config.bos_id]
    while len(ids) < limit and (len(ids) == 1 or ids[-1] != model.config.eos_id):
        ids.append(int(model.step(torch.tensor(ids[-1:]), state).argmax()))
    return ids


def golden_rows() -> Iterator[Row]:
    """The formats with golden files."""
    for case in CASES + TORCH_CASES:
        model, given = case.model(torch.float32), case.state_dict
        written = interop.export_state_dict(case.format, model)
        same = written.keys() == given.keys() and all(torch.equal(written[key], given[key]) for key in given)
        yield Row(
            case.format,
            f"golden file {case}",
            difference(case, torch.float64),
            difference(case, torch.float32),
            greedy(case),
            "yes" if same else "NO",
        )


@torch.no_grad()
def table() -> str:
    """The whole table, with the machine and the date."""
    with tempfile.TemporaryDirectory() as folder:
        live_rows = [Row(*values) for values in live.rows(Path(folder))]
    rows = [*golden_rows(), *live_rows]
    lines = [
        "| format | proven against | largest difference, f64 | f32 | greedy identical | round trip bit-identical |",
        "| --- | --- | ---: | ---: | --- | --- |",
        *map(str, rows),
    ]
    made = f"Made by `make interop-table` on {date.today()}, {platform.machine()}, PyTorch {torch.__version__}."
    return "\n".join([*lines, "", made])


def main() -> None:
    """Put the table into the page, between its two marks."""
    warnings.filterwarnings("ignore", message="these valid_len weights")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    write_text(PAGE, f"{before}{START}\n\n{table()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
