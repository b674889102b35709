"""Going on from a model: what the configuration leaves open is the model's, and contradictions are refused at once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bundles import SRC_TEXT, TGT_TEXT, make_bundle
from dragoman.bundle import load_bundle, save_bundle
from dragoman.config import DecodeConfig, RunConfig
from dragoman.configfile import load_config
from dragoman.errors import ConfigError
from dragoman.training.continued import continued_config
from dragoman.training.run import train


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, en -> de, with search settings of its own, and text for it."""
    bundle = make_bundle(joint=False, kind="wordlevel", norm_first=False, positions="learned", bos_id=2)
    bundle.decode = DecodeConfig(beam_size=4, length_norm="power", max_length=63)
    save_bundle(bundle, tmp_path / "base")
    (tmp_path / "t.en").write_text("\n".join(SRC_TEXT) + "\n")
    (tmp_path / "t.de").write_text("\n".join(TGT_TEXT) + "\n")
    return tmp_path


def config_of(folder: Path, langs: str = "en de", **sections: Any) -> RunConfig:
    src, tgt = langs.split()
    text = {"src": "t.en", "tgt": "t.de"}
    data = {"dir": str(folder), "src_lang": src, "tgt_lang": tgt, "train": text, "valid": text}
    settings = {"max_steps": 2, "threads": 1, "init_from": "base", "lr": 1e-4}
    return RunConfig(data=data, train=settings, **sections)


def test_what_is_left_open_is_the_model_s(folder: Path) -> None:
    base = load_bundle(folder / "base")
    config = continued_config(config_of(folder))
    assert config.model == base.model.config
    assert config.decode == base.decode
    assert (config.tokenizer.kind, config.tokenizer.joint) == ("wordlevel", False)
    assert config.data.src_lang == "en"


def test_dropout_and_search_may_be_others(folder: Path) -> None:
    config = continued_config(config_of(folder, model={"dropout": 0.3}, decode={"beam_size": 2}))
    assert config.model.dropout == 0.3
    assert config.decode == DecodeConfig(beam_size=2)


def test_contradictions_are_refused_together(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.d_model, model\.norm_first, tokenizer\.kind") as caught:
        continued_config(config_of(folder, model={"d_model": 32, "norm_first": True}, tokenizer={"kind": "bpe"}))
    assert "d_ff" not in str(caught.value)


def test_languages(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="translates en → de, and data says de → en; swap the sides"):
        continued_config(config_of(folder, "de en"))
    with caplog.at_level(logging.WARNING, logger="dragoman"):
        continued_config(config_of(folder, "src tgt"))
        assert not caplog.records
        continued_config(config_of(folder, "en nl"))
    assert "translates en → de, and data says en → nl" in caplog.text


def test_the_run_says_what_it_trained(folder: Path) -> None:
    run = train(config_of(folder), folder / "run", quiet=True)
    base, last = load_bundle(folder / "base"), load_bundle(run / "last")
    assert last.decode == base.decode
    written = load_config(run / "config.yaml")
    assert written.model == last.model.config
    assert written.tokenizer.kind == "wordlevel"
    assert "| went on from | base |" in last.card
    assert "| tokenizer | wordlevel, separate |" in last.card
    train(config_of(folder), run, resume=True, quiet=True)
    train(written, run, resume=True, quiet=True)


def test_nothing_is_made_where_the_model_does_not_fit(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.d_ff"):
        train(config_of(folder, model={"d_ff": 7}), folder / "run", quiet=True)
    assert not (folder / "run").exists()
