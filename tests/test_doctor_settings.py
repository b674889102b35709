"""The doctor on vocabularies and settings, and the checks that run before each training."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bundles import SRC_TEXT, make_bundle, make_tokenizers
from conftest import RunCli
from dragoman.config import ModelConfig, RunConfig, TokenizerConfig
from dragoman.errors import DataError
from dragoman.preflight import settings, vocabulary
from dragoman.preflight.finding import Finding
from dragoman.preflight.survey import Pair
from dragoman.text.corpus import TokenCorpus, write_corpus
from dragoman.text.json_tokenizer import ByteLevelTokenizer
from dragoman.text.tokenizer import Tokenizer, TokenizerPair
from dragoman.training.run import train
from dragoman.training.schedules import make_schedule
from tolerances import FLOAT64

WORDS = [
    "ana",
    "bolo",
    "casa",
    "dado",
    "faca",
    "gato",
    "hora",
    "ilha",
    "jarro",
    "lobo",
    "mesa",
    "navio",
    "olho",
    "pato",
]


def pairs_of(count: int, seed: int = 1) -> list[Pair]:
    draw = random.Random(seed)
    rows = [draw.choices(WORDS, k=draw.randint(2, 12)) for _ in range(count)]
    return [(" ".join(row), " ".join(row[::-1])) for row in rows]


def config(**parts: Any) -> RunConfig:
    base: dict[str, Any] = {"data": {"train": {"src": "a", "tgt": "b"}}, "train": {"max_steps": 1000}}
    for name, values in parts.items():
        base[name] = {**base.get(name, {}), **values}
    return RunConfig(**base)


@pytest.fixture(scope="module")
def words() -> TokenizerPair:
    one = Tokenizer.train(TokenizerConfig(kind="wordlevel", min_frequency=1), WORDS)
    return TokenizerPair(one, one)


def corpus_of(pairs: list[Pair], tokenizers: TokenizerPair, folder: Path, **data: Any) -> TokenCorpus:
    return write_corpus(pairs, tokenizers, config(data=data).data, folder / "corpus")


def only(findings: Iterable[Finding], severity: str = "warning") -> str:
    found = list(findings)
    assert len(found) == 1, found
    assert found[0].severity == severity
    assert found[0].text.endswith(".") or severity == "ok"
    return found[0].text


def shape(**changes: Any) -> ModelConfig:
    return ModelConfig(**{"src_vocab_size": 18, "tgt_vocab_size": 18, "d_model": 16, "n_heads": 2, **changes})


# -- vocabulary -----------------------------------------------------------------------------------------------------


def test_unknown_words(words: TokenizerPair) -> None:
    texts = [src for src, _ in pairs_of(100)]
    fine = [finding for finding in vocabulary.fit("x", words.src, texts) if finding.severity != "note"]
    assert fine == []
    some = [f"{text} zebra" for text in texts]
    assert "% of the tokens of x are unknown words" in only(vocabulary.fit("x", words.src, some))
    assert only(vocabulary.fit("x", words.src, ["zebra quark"] * 30), "error").startswith("100 %")


def test_words_that_come_back_with_other_spaces(words: TokenizerPair) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="wordlevel", min_frequency=1), ["ana, bolo."])
    text = only(vocabulary.fit("x", tokenizer, ["ana, bolo."] * 30), "note")
    assert "'ana, bolo.' as 'ana , bolo .'" in text


def test_a_tokenizer_that_loses_text(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = make_tokenizers()
    texts = SRC_TEXT * 10
    assert list(vocabulary.fit("x", tokenizers.src, texts)) == []
    whole = ByteLevelTokenizer.decode
    monkeypatch.setattr(ByteLevelTokenizer, "decode", lambda self, ids: whole(self, ids).replace("ey", ""))
    text = only(vocabulary.fit("x", tokenizers.src, texts))
    assert "gives 25 % of x back changed" in text


def test_a_vocabulary_of_another_language() -> None:
    tokenizers = make_tokenizers(joint=False)
    texts = [f"Собака номер {at} спит в доме и видит сон" for at in range(30)]
    assert "bytes on average" in only(vocabulary.fit("x", tokenizers.src, texts))


def test_few_texts_say_nothing(words: TokenizerPair) -> None:
    assert list(vocabulary.fit("x", words.src, ["zebra"] * 5)) == []


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("src_vocab_size", 301),
        ("tgt_vocab_size", 301),
        ("src_pad_id", 0),
        ("tgt_pad_id", 4),
        ("bos_id", 5),
        ("eos_id", 9),
    ],
)
def test_sizes_and_ids_that_are_not_the_tokenizer_s(change: str, value: int) -> None:
    bundle = make_bundle()
    assert list(vocabulary.ids(bundle.model.config, bundle.tokenizers)) == []
    other = bundle.model.config.changed(**{change: value})
    text = only(vocabulary.ids(other, bundle.tokenizers), "error")
    assert f"the model's {change} is {value}" in text


def test_one_matrix_for_two_vocabularies() -> None:
    tokenizers = make_tokenizers(joint=False)
    own = ModelConfig(
        src_vocab_size=tokenizers.src.vocab_size, tgt_vocab_size=tokenizers.tgt.vocab_size, tie_embeddings="none"
    )
    assert list(vocabulary.ids(own, tokenizers)) == []
    if own.src_vocab_size == own.tgt_vocab_size:
        text = only(vocabulary.ids(own.changed(tie_embeddings="all"), tokenizers), "error")
        assert "tokenizer.joint: true" in text


def test_tokens_that_never_occur(tmp_path: Path) -> None:
    many = Tokenizer.train(TokenizerConfig(kind="wordlevel", min_frequency=1), [f"w{at}" for at in range(1500)] + WORDS)
    tokenizers = TokenizerPair(many, many)
    corpus = corpus_of(pairs_of(50), tokenizers, tmp_path)
    assert "99 % of the 1,518 tokens never occur" in only(vocabulary.unused(corpus, tokenizers))
    used = corpus_of([(f"w{at}", f"w{at + 1}") for at in range(1499)], tokenizers, tmp_path)
    assert list(vocabulary.unused(used, tokenizers)) == []


# -- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "data", "says"),
    [
        (("", "ana"), {}, "have an empty side"),
        (("ana " * 40, "bolo " * 40), {"max_length": 30}, "longer than data.max_length"),
        (("ana", "bolo " * 12), {"max_ratio": 3.0}, "very different lengths"),
    ],
)
def test_dropped_pairs(bad: Pair, data: dict[str, Any], says: str, words: TokenizerPair, tmp_path: Path) -> None:
    pairs = [("ana bolo", "bolo ana")] * 90
    assert list(settings.dropped(corpus_of(pairs + [bad] * 3, words, tmp_path, **data))) == []
    text = only(settings.dropped(corpus_of(pairs + [bad] * 10, words, tmp_path, **data)))
    assert "10 % of the training pairs" in text
    assert says in text


def test_pairs_beyond_the_positions(words: TokenizerPair, tmp_path: Path) -> None:
    corpus = corpus_of([("ana " * 14, "bolo " * 15), ("ana", "bolo")], words, tmp_path)
    plain = config().train
    assert list(settings.lengths(corpus, shape(positions="learned", max_length=16), plain)) == []
    text = only(settings.lengths(corpus, shape(positions="learned", max_length=15), plain), "error")
    assert "1 training pairs are longer than the 15 learned positions (the longest has 16 tokens" in text
    assert "data.max_length: 13" in text
    assert list(settings.lengths(corpus, shape(max_length=15), plain)) == []


def test_pairs_beyond_a_batch(words: TokenizerPair, tmp_path: Path) -> None:
    corpus = corpus_of([("ana " * 20, "bolo " * 20), ("ana", "bolo")], words, tmp_path)
    text = only(settings.lengths(corpus, shape(), config(train={"batch_tokens": 20}).train))
    assert "1 training pairs are longer than train.batch_tokens (20)" in text
    assert list(settings.lengths(corpus, shape(), config(train={"batch_tokens": 21}).train)) == []


def test_rows_with_nothing_to_see(words: TokenizerPair, tmp_path: Path) -> None:
    corpus = corpus_of(pairs_of(5), words, tmp_path)
    bare = shape(src_eos=False)
    assert "2 sources of data.test are empty" in only(settings.empty_rows(corpus, bare, {"valid": 0, "test": 2}))
    assert list(settings.empty_rows(corpus, shape(), {"test": 2})) == []


def test_decoding_that_cuts_or_stretches(words: TokenizerPair, tmp_path: Path) -> None:
    corpus = corpus_of([("ana", "bolo " * 8), ("ana", "bolo bolo")] * 20, words, tmp_path)
    assert list(settings.decoding_limits(corpus, shape(), config().decode)) == []
    short = config(decode={"max_length_ratio": 2.0, "max_length_extra": 2}).decode
    text = only(settings.decoding_limits(corpus, shape(), short))
    assert text.startswith("50 % of the training targets are longer than decode allows")
    assert "max_length_ratio to 5.9" in text  # 9 tokens to 2, times 1.3
    assert "leave decode.max_length out" in only(
        settings.decoding_limits(corpus, shape(), config(decode={"max_length": 8}).decode)
    )
    long = config(decode={"min_length": 3}).decode
    assert only(settings.decoding_limits(corpus, shape(), long)).startswith("50 % of the training targets are shorter")


def test_the_updates_of_an_epoch_are_those_that_come(words: TokenizerPair, tmp_path: Path) -> None:
    from dragoman.text.batching import TrainingBatches

    corpus = corpus_of(pairs_of(4000), words, tmp_path)
    run = config(train={"batch_tokens": 500, "accumulate": 2})
    true = len(list(TrainingBatches(corpus, shape(), 500, 1).epoch_batches(0))) / 2
    guess = settings.updates_per_epoch(len(corpus), corpus, shape(), run.train)
    assert 0.85 < guess / true < 1.15


@pytest.mark.parametrize("schedule", ["noam", "inverse_sqrt", "linear", "cosine", "plateau", "constant"])
def test_the_peak_is_the_schedule_s(schedule: str) -> None:
    run = config(train={"schedule": schedule, "lr": 0.7, "warmup_steps": 50, "max_steps": 1000}).train
    one = make_schedule(run, 64)
    rates = [one.rate(step, step / 1000) for step in range(1, 60)]
    assert settings.peak_rate(run, 64) == pytest.approx(max(rates), abs=FLOAT64)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lr": 1e-6}, "too small to learn anything"),
        ({"lr": 0.5}, "so large that training will diverge"),
        ({"schedule": "noam", "lr": 0.001, "warmup_steps": 400}, "noam's factor: a peak of"),
        ({"warmup_steps": 1000}, "warm-up of 1,000 updates is longer than the run of about 1,000 (train.max_steps)"),
        ({"max_steps": None, "max_epochs": 2}, "run of about 200 (train.max_epochs)"),
    ],
)
def test_schedules_that_cannot_work(changes: dict[str, Any], says: str) -> None:
    assert says in only(settings.schedule(config(train=changes), 64, per_epoch=100.0))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"warmup_steps": 5000, "warmup_ratio": 0.06},
        {"schedule": "noam", "lr": 1.0},
        {"max_steps": None, "max_minutes": 5.0},
        {"warmup_steps": 0},
    ],
)
def test_schedules_that_work(changes: dict[str, Any]) -> None:
    assert list(settings.schedule(config(train=changes), 512, per_epoch=100.0)) == []


def test_minutes_that_do_not_suffice() -> None:
    run = config(train={"max_steps": None, "max_minutes": 1.0, "warmup_steps": 100})
    found = list(settings.time_budget(run, per_epoch=50.0, seconds_per_update=1.0))
    assert [finding.severity for finding in found] == ["warning", "ok"]
    assert "run of about 60 (train.max_minutes)" in found[0].text
    assert "60 updates, or 1.2 epochs" in found[1].text
    calm = config(train={"max_steps": None, "max_minutes": 1.0, "warmup_steps": 10})
    assert "the whole text takes 600" in only(settings.time_budget(calm, 600.0, 1.0), "note")


def test_validation_settings() -> None:
    assert "no data.valid" in only(settings.validation(config(), 100.0), "note")
    assert "patience never ends it" in only(settings.validation(config(train={"patience": 3}), 100.0))
    valid = {"valid": {"split": 10}}
    assert list(settings.validation(config(data=valid), 100.0)) == []
    late = config(data=valid, train={"valid_every": 5000})
    assert "validation comes every 5,000 updates" in only(settings.validation(late, 100.0), "note")


def test_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = shape(n_encoder_layers=1, n_decoder_layers=1, d_ff=16)

    def look(size: int = 1000, **changes: Any) -> list[Finding]:
        return list(settings.machine(config(train=changes), small, "cpu", tmp_path / "runs" / "x", size))

    assert look() == []
    threads = only(look(threads=settings.processors() + 1))
    assert f"set train.threads: {settings.processors()}" in threads
    assert "fp16 is slow" in only(look(precision="fp16"))
    monkeypatch.setattr(settings, "available_memory", lambda: 1 << 20)
    assert "1 MiB are free" in only(look(batch_tokens=4096))
    monkeypatch.setattr(settings, "available_memory", lambda: 1 << 40)
    assert look(batch_tokens=4096) == []
    monkeypatch.setattr(settings, "available_memory", lambda: 1 << 30)
    assert "read from disk" in only(look(size=2 << 30), "note")
    free = type("usage", (), {"free": 1000})
    monkeypatch.setattr(settings.shutil, "disk_usage", lambda path: free)
    assert f"free below {tmp_path}" in only(look())


def test_memory_is_said_by_the_system() -> None:
    found = settings.available_memory()
    assert found is None or 1 << 20 < found < 1 << 50


# -- before a training ----------------------------------------------------------------------------------------------


@pytest.fixture
def run_config(tmp_path: Path) -> RunConfig:
    for name, count, seed in (("train", 300, 1), ("valid", 40, 2)):
        pairs = pairs_of(count, seed)
        for side, column in (("src", 0), ("tgt", 1)):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{pair[column]}\n" for pair in pairs))
    data = {"dir": str(tmp_path), **{name: {"src": f"{name}.src", "tgt": f"{name}.tgt"} for name in ("train", "valid")}}
    return RunConfig(
        data=data,
        tokenizer={"kind": "wordlevel", "min_frequency": 1},
        model={"d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 32},
        train={"max_steps": 3, "batch_tokens": 300, "warmup_steps": 1, "threads": 1},
    )


def test_a_healthy_training_begins_without_a_warning(
    run_config: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run_config, tmp_path / "run")
    assert "warning" not in capsys.readouterr().err


def test_a_training_begins_with_its_warnings_and_goes_on(
    run_config: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = run_config.changed(train=run_config.train.changed(warmup_steps=50))
    lines = (tmp_path / "train.src").read_text().splitlines()
    (tmp_path / "valid.src").write_text("".join(f"{line}\n" for line in lines[:40]))
    folder = train(bad, tmp_path / "run")
    told = capsys.readouterr().err
    assert "warning: the warm-up of 50 updates is longer than the run of about 3" in told
    assert "warning: 100 % of the sources of data.valid and " in told
    assert (folder / "best").is_dir()
    train(bad.changed(train=bad.train.changed(max_steps=4)), tmp_path / "run", resume=True)
    assert "warning" not in capsys.readouterr().err  # it was said at the start


def test_a_training_that_makes_no_sense_is_refused(run_config: RunConfig, tmp_path: Path) -> None:
    short = run_config.changed(model=run_config.model.changed(positions="learned", max_length=8))
    with pytest.raises(DataError, match=r"longer than the 8 learned positions.*data\.max_length: 6"):
        train(short, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    fixed = short.changed(data=short.data.changed(max_length=6))
    with pytest.raises(DataError, match=r"^\d+ pairs of data\.valid are longer than the 8 learned positions"):
        train(fixed, tmp_path / "run", quiet=True)
    for side in ("src", "tgt"):
        (tmp_path / f"valid.{side}").write_text("ana bolo\ncasa dado faca\n")
    assert train(fixed, tmp_path / "run", quiet=True).is_dir()


def test_the_command_warns_too(run_config: RunConfig, tmp_path: Path, run_cli: RunCli) -> None:
    bad = run_config.changed(train=run_config.train.changed(lr=1e-7))
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(bad.model_dump(mode="json")))
    done = run_cli("train", path, "--out", tmp_path / "run")
    assert done.rc == 0, done.stderr
    assert "warning: train.lr 1e-07 is too small to learn anything" in done.stderr


def test_special_tokens_are_counted_as_the_model_does(words: TokenizerPair, tmp_path: Path) -> None:
    corpus = corpus_of([("ana bolo", "casa")], words, tmp_path)
    both = settings._with_special(corpus, shape(src_bos=True, src_eos=True))
    assert np.array_equal(both[0], [4])
    assert np.array_equal(both[1], [2])
