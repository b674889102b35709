"""What :mod:`decode` compares: dragoman's engine, ``transformers``' ``generate`` and CTranslate2, each behind one face.

Each is made in a process of its own (see :func:`serve`), which reads jobs as lines of JSON and answers alike.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import torch

Ids = list[list[int]]


class Contestant(Protocol):
    def forced(self, sources: Ids, beam: int, length: int) -> Ids:
        """The best ``length`` target tokens of each source, ``</s>`` not among them; sources come without theirs."""

    def translate(self, texts: list[str], beam: int) -> list[str]:
        """Text to text, with the length norm n^1 and at most twice the source's tokens and ten."""


class Ours:
    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        from dragoman.bundle import load_bundle
        from dragoman.engine import fast

        torch.set_num_threads(threads)
        self.folder, self.compile = folder, precision == "compiled"
        self.precision = "fp32" if self.compile else precision
        self.engine = fast(load_bundle(folder).model.eval(), self.precision, consume=True, compile=self.compile)
        self.translator: Any = None

    def forced(self, sources: Ids, beam: int, length: int) -> Ids:
        from dragoman.config import DecodeConfig
        from dragoman.decoding.search import search
        from dragoman.text.batching import pad_sources

        engine = self.engine
        src, mask = pad_sources(sources, engine.config)
        found = search(
            engine.step,
            engine.start(engine.encode(src, mask), mask),
            len(sources),
            DecodeConfig(beam_size=beam, min_length=length, max_length=length),
            bos_id=engine.config.bos_id,
            eos_id=engine.config.eos_id,
            limits=[length] * len(sources),
        )
        return [best[0].tokens for best in found]

    def translate(self, texts: list[str], beam: int, stop_after: int) -> list[str]:
        from dragoman import Translator

        if self.translator is None:
            self.translator = Translator.load(self.folder, device="cpu", precision=self.precision)
        options: dict[str, Any] = {"length_norm": "power", "length_penalty": 1.0, "stop_after": stop_after}
        options |= {"max_length_ratio": 2.0, "max_length_extra": 10}
        return [one.text for one in self.translator.translate(texts, beam_size=beam, **options)]


class Peer:
    """A contestant that has no tokenizer of its own: dragoman's stands in, and sorts by length into batches."""

    batch_tokens = 2048

    def __init__(self, folder: Path) -> None:
        from dragoman.bundle import read_config
        from dragoman.text.tokenizer import TokenizerPair

        self.config, self.tokenizers = read_config(folder)[1], TokenizerPair.load(folder)

    def translate(self, texts: list[str], beam: int, stop_after: int) -> list[str]:
        from dragoman.text.batching import ordered_batches

        sources = [self.tokenizers.src.encode(text) for text in texts]
        found: dict[int, str] = {}
        for places in ordered_batches([len(ids) for ids in sources], self.batch_tokens):
            best = self.free([sources[place] for place in places], beam)
            found |= {place: self.tokenizers.tgt.decode(ids) for place, ids in zip(places, best, strict=True)}
        return [found[place] for place in range(len(texts))]

    def free(self, sources: Ids, beam: int) -> Ids:
        raise NotImplementedError


class Generate(Peer):
    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        from transformers import MarianMTModel

        super().__init__(folder)
        torch.set_num_threads(threads)
        self.model = MarianMTModel.from_pretrained(folder / "marian").eval()

    def forced(self, sources: Ids, beam: int, length: int) -> Ids:
        return self._run(sources, beam, min_new_tokens=length, max_new_tokens=length)

    def free(self, sources: Ids, beam: int) -> Ids:
        most = 2 * max(map(len, sources)) + 10
        rows = self._run(sources, beam, max_new_tokens=most, length_penalty=1.0)
        eos = self.config.eos_id
        return [row[: row.index(eos)] if eos in row else row for row in rows]

    @torch.inference_mode()
    def _run(self, sources: Ids, beam: int, **options: Any) -> Ids:
        from dragoman.text.batching import pad_sources

        src, mask = pad_sources(sources, self.config)
        mask = torch.ones_like(src) if mask is None else mask.long()
        out = self.model.generate(input_ids=src, attention_mask=mask, num_beams=beam, do_sample=False, **options)
        return out[:, 1:].tolist()


class CTranslate2(Peer):
    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        import ctranslate2

        super().__init__(folder)
        kind = "int8" if precision == "int8" else "float32"
        self.model = ctranslate2.Translator(
            str(folder / "ctranslate2"), compute_type=kind, intra_threads=threads, inter_threads=1
        )
        self.src, self.tgt = self.tokenizers.src.vocabulary(), self.tokenizers.tgt.vocabulary()
        self.ids = {token: index for index, token in enumerate(self.tgt)}

    def forced(self, sources: Ids, beam: int, length: int) -> Ids:
        return self._run(sources, beam, min_decoding_length=length, max_decoding_length=length)

    def free(self, sources: Ids, beam: int) -> Ids:
        return self._run(sources, beam, max_decoding_length=2 * max(map(len, sources)) + 10, length_penalty=1.0)

    def _run(self, sources: Ids, beam: int, **options: Any) -> Ids:
        # The source's </s> is added by the folder's own setting.
        tokens = [[self.src[index] for index in ids] for ids in sources]
        found = self.model.translate_batch(tokens, beam_size=beam, max_batch_size=0, **options)
        return [[self.ids[token] for token in one.hypotheses[0]] for one in found]


CONTESTANTS = {"dragoman": Ours, "generate": Generate, "ctranslate2": CTranslate2}


def serve(name: str, precision: str, folder: str, threads: int) -> None:
    """Answer the jobs on standard input, one line each, until it ends."""
    from dragoman.cli.common import prepare_runtime

    # The same allocator for all: that of our commands.
    prepare_runtime(threads)
    contestant: Contestant = CONTESTANTS[name](Path(folder), precision, threads)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        job = json.loads(line)
        kind = job.pop("kind")
        cpu, wall = time.process_time(), time.perf_counter()
        out = getattr(contestant, kind)(**job)
        seconds = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**seconds, "out": out, "rss": rss, "pid": os.getpid()}), file=answers, flush=True)


def prepare(folder: str, shape: dict[str, Any] | None) -> None:
    """Write the peers' weights beside a model directory; with ``shape`` a random model of that shape first.

    A process of its own, because CTranslate2's conversion is not trusted to leave a model as it was.
    """
    from dragoman.bundle import load_bundle
    from dragoman.errors import ConversionError
    from dragoman.interop import ctranslate2, export_state_dict
    from dragoman.interop.marian_config import marian_config

    if shape is not None:
        _random_model(Path(folder), shape)
    bundle = load_bundle(folder)
    (Path(folder) / "ctranslate2").mkdir()
    ctranslate2.save_folder(bundle, Path(folder) / "ctranslate2")
    try:
        weights = export_state_dict("marian", bundle.model)
    except ConversionError as error:
        print(f"left out: generate ({error})", flush=True)
        return
    from transformers import MarianConfig, MarianMTModel

    model = MarianMTModel(MarianConfig(**marian_config(bundle.model.config, "float32")))
    left_out = model.load_state_dict(weights, strict=False)
    assert not [key for key in left_out.missing_keys if "embed_positions" not in key], left_out
    model.generation_config.update(bad_words_ids=None, forced_eos_token_id=None)
    model.save_pretrained(Path(folder) / "marian")


def _random_model(folder: Path, shape: dict[str, Any]) -> None:
    from dragoman.bundle import Bundle, save_bundle
    from dragoman.config import DecodeConfig, ModelConfig, TokenizerConfig
    from dragoman.model.transformer import Transformer
    from dragoman.text.tokenizer import Tokenizer, TokenizerPair

    size = shape.pop("vocab_size")
    words = [f"w{number}" for number in range(size - 4)]
    one = Tokenizer.train(TokenizerConfig(kind="wordlevel", vocab_size=size, min_frequency=1), words)
    config = ModelConfig(
        src_vocab_size=size, tgt_vocab_size=size, norm_first=False, final_norm=False, positions="sinusoidal_halves",
        tie_embeddings="all", **shape,
    )  # fmt: skip
    torch.manual_seed(0)
    save_bundle(Bundle(Transformer(config).eval(), TokenizerPair(one, one), DecodeConfig(), "en", "de", ""), folder)


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2], json.loads(sys.argv[3]))
    else:
        serve(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
