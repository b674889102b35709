"""Word alignment from source attention, scored on the hand-checked phrasebook sentences: its error rate by layer.

    python benchmarks/alignment.py [MODEL]

MODEL is a model of English to German, by default runs/demo/best. The translations are forced to be those of the set,
whose words were linked by hand (tests/golden/alignments.txt).
"""

from __future__ import annotations

import sys
from pathlib import Path

GOLD = Path(__file__).resolve().parents[1] / "tests" / "golden" / "alignments.txt"


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo/best")
    if not folder.is_dir():
        raise SystemExit(f"{folder} is no model directory; run dragoman demo first, or name one.")
    from dragoman import Translator
    from dragoman.evaluation import GoldLinks, alignment_error_rate
    from dragoman.visualize.alignment import align

    rows = [line.split("\t") for line in GOLD.read_text("utf-8").splitlines() if not line.startswith("#")]
    gold = [GoldLinks.parse(links) for _, _, links in rows]
    translator = Translator.load(folder, device="cpu")
    found = [translator.force(source, target, attention=True) for source, target, _ in rows]
    print(f"{len(rows)} sentences, {sum(len(one.sure) for one in gold)} sure links")
    print(f"{'':<18}{'error rate':>12}{'precision':>12}{'recall':>12}")
    for layer in ("best", "mean", *range(1, translator.model.config.n_decoder_layers + 1)):
        links = [
            align(row[0], translation, translator.special, layer) for row, translation in zip(rows, found, strict=True)
        ]
        score = alignment_error_rate(links, gold)
        name = {"best": "best by itself", "mean": "mean of layers"}.get(str(layer), f"layer {layer}")
        print(f"{name:<18}{score.error_rate:>10.1f} %{score.precision:>10.1f} %{score.recall:>10.1f} %")


if __name__ == "__main__":
    main()
