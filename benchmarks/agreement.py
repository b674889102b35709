"""Does the fast engine translate as the plain model does, and what do eight bits cost?

    python benchmarks/agreement.py MODEL --src FILE [--ref FILE] [--beam 5]

Every sentence by the plain model, by the float32 engine and by the int8 engine; each engine with the sentences
batched, and alone. Of each that differs, the float64 model's scores of both translations are compared: the margin is
what was decided on. One under 1e-4 is a tie, which sums in another order may break either way.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from dragoman import Translator
from dragoman.bundle import load_bundle
from dragoman.evaluation import evaluate
from dragoman.text.readers import read_lines
from dragoman.translating.searcher import Searcher
from dragoman.translation import Translation

TIE = 1e-4


def plain_translator(model: Path, dtype: torch.dtype = torch.float32) -> Translator:
    """One whose every step is the model's own."""
    translator = Translator(load_bundle(model, torch.device("cpu"), dtype))
    translator._searcher = Searcher(translator.model, translator.intake, translator.device)
    return translator


def report(
    name: str, found: list[Translation], against: list[Translation], sources: list[str], judge: Translator
) -> None:
    """How many of ``found`` are not those ``against``, token for token, and by what margin each was decided."""
    differing = [place for place, pair in enumerate(zip(found, against, strict=True)) if pair[0].ids != pair[1].ids]
    margins = []
    for place in differing:
        ours, theirs = (judge.score(sources[place], some[place]) for some in (found, against))
        margins.append(theirs - ours)
    ties = sum(abs(margin) < TIE for margin in margins)
    print(f"{name}: {len(differing)} of {len(found)} differ, {ties} of these are ties")
    for place, margin in zip(differing, margins, strict=True):
        if len(differing) <= 12:
            print(f"    line {place + 1}: score of the other minus score of this {margin:+.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path)
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    args = parser.parse_args()
    sources = list(read_lines(args.src))
    judge = plain_translator(args.model, torch.float64)
    plain = plain_translator(args.model)
    for beam in args.beam:
        by_model = plain.translate(sources, beam_size=beam)
        print(f"beam {beam}")
        alone = [plain.translate(source, beam_size=beam) for source in sources]
        report("  the plain model, a sentence alone against batched", alone, by_model, sources, judge)
        scored = {"the plain model": by_model}
        for precision in ("fp32", "int8"):
            engine = Translator.load(args.model, "cpu", precision)
            batched = scored[f"the {precision} engine"] = engine.translate(sources, beam_size=beam)
            alone = [engine.translate(source, beam_size=beam) for source in sources]
            report(f"  the {precision} engine against the plain model", batched, by_model, sources, judge)
            report(f"  the {precision} engine, a sentence alone against batched", alone, batched, sources, judge)
        if args.ref is not None:
            for name, translations in scored.items():
                texts = [translation.text for translation in translations]
                score = evaluate(texts, list(read_lines(args.ref)), ["bleu"])[0]
                print(f"  {name}: {score.value:.2f}  {score.signature}")


if __name__ == "__main__":
    main()
