"""What writing a model in another format costs: seconds and peak memory against the model's size, a process each.

    python benchmarks/convert.py --to ctranslate2
    python benchmarks/convert.py --to ctranslate2 quantization=int8
    python benchmarks/convert.py --to ctranslate2 --model runs/demo/best

Without --model it is the paper's base model (or the format's own preset, which has its size) with 30,000 tokens, one
matrix for both embeddings and the output: 60 million random parameters. The first line is what a process costs that
reads the model and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.text.tokenizer import TokenizerPair

VOCABULARY = 30_000
NOTHING = "nothing"
FOLDERS = ("dragoman", "marian", "ctranslate2")


def make_model(folder: Path, fmt: str) -> None:
    """The model to be written, of a shape that the format knows, with a vocabulary of made-up words."""
    import torch

    from dragoman.bundle import Bundle, save_bundle
    from dragoman.config import DecodeConfig, ModelConfig
    from dragoman.model.transformer import Transformer
    from dragoman.presets import PRESETS

    pair = tokenizers_for(fmt)
    torch.manual_seed(1)
    shape = {
        "src_vocab_size": pair.src.vocab_size,
        "tgt_vocab_size": pair.tgt.vocab_size,
        "tie_embeddings": "all",
        "bos_id": pair.tgt.bos_id,
        "eos_id": pair.tgt.eos_id,
        "src_pad_id": pair.src.pad_id,
        "tgt_pad_id": pair.tgt.pad_id,
    }
    model = Transformer(ModelConfig.preset(fmt if fmt in PRESETS else "transformer-base", **shape))
    save_bundle(Bundle(model, pair, DecodeConfig()), folder)


def tokenizers_for(fmt: str) -> TokenizerPair:
    """A joint vocabulary of made-up words; for marian the rarest pieces of a SentencePiece vocabulary are made up."""
    from dragoman.config import TokenizerConfig
    from dragoman.text.sentencepiece import SentencePieceTokenizer
    from dragoman.text.tokenizer import Tokenizer, TokenizerPair

    words = [f"word{number}" for number in range(VOCABULARY)]
    if fmt == "marian":
        small = Tokenizer.train(TokenizerConfig(kind="sentencepiece", vocab_size=400), words)
        assert isinstance(small, SentencePieceTokenizer)
        names = [*small.vocabulary(), *(f"▁{word}" for word in words)][:VOCABULARY]
        both: Tokenizer = SentencePieceTokenizer(small.model, {name: index for index, name in enumerate(names)})
    else:
        both = Tokenizer.train(TokenizerConfig(kind="wordlevel", vocab_size=VOCABULARY, min_frequency=1), words)
    return TokenizerPair(both, both)


def write(model: Path, folder: Path, fmt: str, facts: dict[str, str]) -> None:
    """Read the model and write it in the format; the result is read again and compared, as ``convert`` does it."""
    from dragoman import interop
    from dragoman.bundle import load_bundle

    bundle = load_bundle(model)
    begun = time.perf_counter()
    if fmt != NOTHING:
        interop.save(bundle, folder / ("model" if fmt in FOLDERS else "model.safetensors"), fmt, **facts)
    print(time.perf_counter() - begun)


def measure(model: Path, fmt: str, facts: list[str]) -> tuple[float, float, float, float]:
    """Seconds of the writing, seconds of the whole process, its peak resident MB, and the MB written."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--to", fmt, "--model", str(model), "--into", folder, *facts]
        begun = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            printed = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(process.returncode)
        written = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        return float(printed), time.perf_counter() - begun, usage.ru_maxrss / 1024, written / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", required=True, metavar="FORMAT")
    parser.add_argument("--model", type=Path, metavar="DIR")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("facts", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.into is not None:
        write(options.model, options.into, options.to, dict(fact.split("=", 1) for fact in options.facts))
        return
    with tempfile.TemporaryDirectory() as scratch:
        model = options.model
        if model is None:
            model = Path(scratch) / "model"
            make_model(model, options.to)
        size = (model / "model.safetensors").stat().st_size / 1e6
        print(f"model.safetensors: {size:.0f} MB")
        print(f"{'':<36}{'writing':>10}{'process':>10}{'peak memory':>14}{'written':>10}")
        for fmt, facts in ((NOTHING, []), (options.to, options.facts)):
            seconds, whole, peak, written = measure(model, fmt, facts)
            name = " ".join([fmt, *facts])
            print(f"{name:<36}{seconds:8.2f} s{whole:8.2f} s{peak:11.0f} MB{written:7.0f} MB")


if __name__ == "__main__":
    main()
