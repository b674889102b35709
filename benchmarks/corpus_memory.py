"""Memory of a training at two corpus sizes: the text once, and forty times over.

For each size a process of its own tokenises the text, runs a few updates of a small model, and then goes through all
batches of an epoch; printed are its peak resident memory and its anonymous memory (that which is not mapped files).

    python benchmarks/corpus_memory.py --src train.en.gz --tgt train.de.gz [--bpe-dropout 0.1] [--streaming]

With --streaming the text is tokenised while it is used, and nothing is stored; each time over is a file of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from itertools import chain, islice, repeat
from pathlib import Path


def status(name: str) -> float:
    """A line of /proc/self/status in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(src: str, tgt: str, times: int, bpe_dropout: float, streaming: bool) -> None:
    from dragoman.cli.common import prepare_runtime

    prepare_runtime()
    import torch

    from dragoman.config import DataConfig, ModelConfig, TextCorpus, TokenizerConfig, TrainConfig
    from dragoman.model.transformer import Transformer
    from dragoman.text.batching import Position
    from dragoman.text.corpus import TokenCorpus, write_corpus
    from dragoman.text.readers import read_pairs
    from dragoman.text.recut import RecutCorpus
    from dragoman.text.stream_batches import StreamCorpus
    from dragoman.text.tokenizer import train_tokenizers
    from dragoman.training.dealing import batches_of, deal
    from dragoman.training.optim import make_optimizer
    from dragoman.training.products import use_products
    from dragoman.training.ranks import Ranks
    from dragoman.training.validation import batch_loss

    corpus = TextCorpus(src=src, tgt=tgt)
    tokenizers = train_tokenizers(TokenizerConfig(vocab_size=6000), lambda: read_pairs(corpus))
    sizes = {"src_vocab_size": tokenizers.src.vocab_size, "tgt_vocab_size": tokenizers.tgt.vocab_size}
    config = ModelConfig(
        d_model=64, n_heads=4, n_encoder_layers=1, n_decoder_layers=1, d_ff=128, tie_embeddings="all", **sizes
    )
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        tokens: TokenCorpus | StreamCorpus
        if streaming:
            data = DataConfig(train={"src": [src] * times, "tgt": [tgt] * times, "streaming": True})
            tokens = StreamCorpus(data, tokenizers, bpe_dropout, 1, lambda pair: True)
        else:
            pairs = chain.from_iterable(read_pairs(corpus) for _ in repeat(None, times))
            data = DataConfig(train=corpus)
            tokens = write_corpus(pairs, tokenizers, data, Path(folder) / "corpus", words=bpe_dropout > 0)
            if bpe_dropout:
                tokens = RecutCorpus(tokens, tokenizers, bpe_dropout, 1, data.max_length)
        built, base = time.perf_counter() - begun, status("RssAnon")
        model = Transformer(config)
        use_products(model)
        optimizer = make_optimizer(model, TrainConfig(max_steps=1))
        batches = batches_of(tokens, config, TrainConfig(max_steps=1, batch_tokens=2560), lambda text: None)
        for share in islice(deal(batches, Ranks(), 1, Position()), 40):
            (batch,) = share.batches
            (batch_loss(model, batch, 0.1)[0] / batch.n_tgt_tokens).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        trained, peak, begun = status("RssAnon"), 0.0, time.perf_counter()
        seen = 0
        for number, share in enumerate(deal(batches, Ranks(), 1, Position())):
            seen += share.pairs
            peak = max(peak, status("RssAnon")) if number % 100 == 0 else peak
            if share.epoch_ends:
                break
        print(
            f"{seen:>10,} pairs  tokenised in {built:5.1f} s to {sum_sizes(Path(folder)):7.1f} MB  "
            f"anonymous {base:6.0f} MB before, {trained:6.0f} MB in training, {peak:6.0f} MB at most in an epoch "
            f"({time.perf_counter() - begun:.0f} s)  peak resident {status('VmHWM'):6.0f} MB, of it mapped files "
            f"{status('RssFile'):6.0f} MB at the end  ({torch.get_num_threads()} threads)"
        )


def sum_sizes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", default="../shared/data/multi30k/train.en.gz")
    parser.add_argument("--tgt", default="../shared/data/multi30k/train.de.gz")
    parser.add_argument("--times", type=int, nargs="+", default=[1, 40])
    parser.add_argument("--bpe-dropout", type=float, default=0.0)
    parser.add_argument("--streaming", action="store_true", help="tokenise while training")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(given.src, given.tgt, given.one, given.bpe_dropout, given.streaming)
        return
    for times in given.times:
        command = [sys.executable, __file__, "--src", given.src, "--tgt", given.tgt, "--one", str(times)]
        command += ["--bpe-dropout", str(given.bpe_dropout), *(["--streaming"] if given.streaming else [])]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
