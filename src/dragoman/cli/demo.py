"""``dragoman demo``: a translator from nothing, in minutes."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import common
from dragoman.errors import RunError

if TYPE_CHECKING:
    from dragoman.config import RunConfig
    from dragoman.phrasebook import Pair

N_TRAIN, N_VALID, N_TEST = 120_000, 300, 1000
# The rest is dragoman's defaults. Most words are one token; nothing is dropped or smoothed, since minutes of training
# on text that does not repeat itself leave no time to overfit.
_SETTINGS: dict[str, Any] = {
    "tokenizer": {"kind": "bpe", "vocab_size": 2400, "joint": False},
    "model": {
        "d_model": 128,
        "n_heads": 4,
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
        "d_ff": 256,
        "tie_embeddings": "decoder",
        "positions": "rotary",
        "dropout": 0.0,
    },
    "train": {
        "batch_tokens": 1536,
        "lr": 0.003,
        "schedule": "linear",
        "warmup_ratio": 0.06,
        "label_smoothing": 0.0,
        "valid_every": 1000,
    },
}
MINUTES = 3.2


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The run directory; an earlier demo there is replaced.")
    ] = Path("runs/demo"),
    minutes: Annotated[float, typer.Option(min=0.01, help="Minutes of training.")] = MINUTES,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads. Default: all processors.")] = None,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Train a translator on the bundled English-German phrasebook, score it on unseen sentences and use it.

    Takes under four minutes on two CPU cores; nothing is downloaded.

    \b
    Example:
      dragoman demo
    """
    common.prepare_runtime(threads)
    started = time.monotonic()
    bitext = out.with_name(out.name + "-bitext")
    _make_room(out)
    from dragoman import phrasebook
    from dragoman.files import write_text
    from dragoman.training.run import train
    from dragoman.translator import Translator
    from dragoman.visualize.maps import AttentionMaps
    from dragoman.visualize.page import attention_page

    splits = phrasebook.generate(N_TRAIN, N_VALID, N_TEST, seed=1)
    for name, pairs in (("train", splits.train), ("valid", splits.valid), ("test", splits.test)):
        write_text(bitext / f"{name}.en", "".join(pair.src + "\n" for pair in pairs))
        write_text(bitext / f"{name}.de", "".join(pair.tgt + "\n" for pair in pairs))
    common.logger.info("%d sentence pairs written to %s, for example:", N_TRAIN + N_VALID + N_TEST, bitext)
    for pair in splits.train[:2]:
        common.logger.info("    %s  ->  %s", pair.src, pair.tgt)
    train(_config(bitext, minutes), out, quiet=common.is_quiet())
    translator = Translator.load(out / "best", device="cpu")
    translations = [found.text for found in translator.translate([pair.src for pair in splits.test])]
    _report(splits.test, translations, phrasebook.nearest_neighbour(splits.train, [pair.src for pair in splits.test]))
    example = splits.test[0].src
    found = translator.translate(example, attention=True)
    write_text(out / "attention.html", attention_page(AttentionMaps.of(example, found, translator.special)))
    print(f"\nWhere the model looked while it translated the first of these: {out / 'attention.html'}")
    print(f"It took {(time.monotonic() - started) / 60:.1f} minutes. The model is in {out / 'best'}. Type next:\n")
    program = "dragoman" if shutil.which("dragoman") else sys.argv[0]
    print(f'  echo "{example}" | {program} translate {out / "best"}')
    print(f"  {program} evaluate {out / 'best'} --src {bitext / 'test.en'} --ref {bitext / 'test.de'}")
    print(f"  {program} info {out / 'best'}")
    print(f'  {program} attention {out / "best"} "{example}" --beam -o search.html')


def _make_room(out: Path) -> None:
    """Remove an earlier demo; refuse anything else."""
    if not out.exists():
        return
    settings = out / "config.yaml"
    if not settings.is_file() or not settings.read_text(encoding="utf-8").startswith("name: demo\n"):
        raise RunError(f"{out} exists and holds no demo; choose another --out.")
    shutil.rmtree(out)


def _config(bitext: Path, minutes: float) -> RunConfig:
    from dragoman.config import RunConfig

    files = {name: {"src": f"{name}.en", "tgt": f"{name}.de"} for name in ("train", "valid")}
    data = {"src_lang": "en", "tgt_lang": "de", "dir": str(bitext.resolve()), **files}
    settings = {**_SETTINGS, "train": {**_SETTINGS["train"], "max_minutes": minutes}}
    return RunConfig(name="demo", data=data, **settings)


def _report(test: list[Pair], translations: list[str], neighbours: list[str]) -> None:
    """Scores beside those of looking up the most similar training sentence, and a few translations."""
    from dragoman.evaluation import evaluate

    references = [pair.tgt for pair in test]
    print(
        f"\n{len(test)} sentences that were not in the training text, none with a subject-verb-object triple of it:\n"
    )
    print(f"{'':<34}{'exactly right':>14}{'BLEU':>8}{'chrF':>8}")
    scores = []
    for name, outputs in (("this model", translations), ("the most similar training sentence", neighbours)):
        exact = sum(output == reference for output, reference in zip(outputs, references, strict=True))
        scores = evaluate(outputs, references, ("bleu", "chrf"))
        share = f"{100 * exact / len(references):.1f} %"
        print(f"{name:<34}{share:>14}{scores[0].value:>8.1f}{scores[1].value:>8.1f}")
    print("\n".join(f"  {score.signature}" for score in scores))
    print()
    for pair, translation in list(zip(test, translations, strict=True))[:5]:
        mark = "right" if pair.tgt == translation else f"the phrasebook says: {pair.tgt}"
        print(f"  {pair.src}\n  {translation}  ({mark})")
