"""The recipes: each is a complete configuration, and the split by clusters leaves no sentence on two sides."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import ModelConfig
from dragoman.configfile import load_config
from dragoman.model.transformer import Transformer

RECIPES = Path(__file__).parent.parent / "recipes"
WORDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "A", " b"])
PAIRS = st.lists(st.tuples(WORDS, WORDS.map(str.upper)), max_size=30)


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("split_clusters", RECIPES / "split_clusters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


splitting = program()


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_recipe_is_complete(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    assert config.data.test is not None
    assert config.train.max_minutes is not None
    assert f"recipes/{path.name}" in path.read_text(encoding="utf-8")
    shape = ModelConfig(**{**config.model.model_dump(), "src_vocab_size": 50, "tgt_vocab_size": 50})
    assert sum(parameter.numel() for parameter in Transformer(shape).parameters()) < 20e6
    assert path.stem in (RECIPES.parent / "docs" / "results.md").read_text(encoding="utf-8")


def keys(pairs: list[tuple[str, str]]) -> tuple[set[str], set[str]]:
    return {src.casefold().strip() for src, _ in pairs}, {tgt.casefold().strip() for _, tgt in pairs}


@given(pairs=PAIRS, test=st.integers(0, 3), valid=st.integers(0, 3), seed=st.integers(0, 5))
def test_no_sentence_stands_on_two_sides(pairs: list[tuple[str, str]], test: int, valid: int, seed: int) -> None:
    parts = splitting.split(pairs, test, valid, seed)
    assert len(parts["test"]) <= test
    assert len(parts["valid"]) <= valid
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        for mine, theirs in zip(keys(parts[one]), keys(parts[other]), strict=True):
            assert mine.isdisjoint(theirs)
    assert {pair for part in parts.values() for pair in part} <= set(pairs)


@given(pairs=PAIRS, seed=st.integers(0, 5))
def test_clusters_are_the_connected_parts(pairs: list[tuple[str, str]], seed: int) -> None:
    """Against a closure computed by looking again and again."""
    parts = splitting.clusters(pairs)
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)
    for part in parts:
        reached = [part[0]]
        while True:
            sources, targets = keys(reached)
            more = [p for p in pairs if keys([p])[0] <= sources or keys([p])[1] <= targets]
            if len(more) == len(reached):
                break
            reached = more
        assert sorted(reached) == sorted(part)


def test_the_split_depends_on_the_seed_and_not_on_the_order() -> None:
    pairs = [(f"s{n}", f"t{n}") for n in range(200)]
    one = splitting.split(pairs, 20, 10, 1)
    other = splitting.split(pairs[::-1], 20, 10, 1)
    assert one["test"] == other["test"]
    assert one["valid"] == other["valid"]
    assert one["test"] != splitting.split(pairs, 20, 10, 2)["test"]
    assert len(one["train"]) == 170


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RECIPES / "split_clusters.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_program_writes_three_files(tmp_path: Path) -> None:
    rows = [(f"source {n // 2}", f"target {n}") for n in range(40)]
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows) + "empty\t\n", encoding="utf-8")
    done = run(str(table), str(tmp_path / "out"), "--test", "4", "--valid", "3")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "40 pairs: 26 to train.tsv, 3 to valid.tsv, 4 to test.tsv, 7 left out\n"
    parts = {name: (tmp_path / "out" / f"{name}.tsv").read_text().splitlines() for name in ("train", "valid", "test")}
    assert {name: len(lines) for name, lines in parts.items()} == {"train": 26, "valid": 3, "test": 4}
    sources = [{line.split("\t")[0] for line in lines} for lines in parts.values()]
    assert sum(map(len, sources)) == len(set().union(*sources)) == 20


def test_the_program_says_what_is_wrong(tmp_path: Path) -> None:
    missing = run(str(tmp_path / "none.tsv"), str(tmp_path / "out"))
    assert missing.returncode == 1
    assert missing.stderr.startswith("split_clusters: ")
    assert "none.tsv" in missing.stderr
    assert "Traceback" not in missing.stderr
    few = tmp_path / "few.tsv"
    few.write_text("a\tb\n", encoding="utf-8")
    nothing = run(str(few), str(tmp_path / "out"), "--test", "1")
    assert nothing.returncode == 1
    assert nothing.stderr == "split_clusters: 1 pairs leave none to train on; hold out fewer.\n"
    assert not (tmp_path / "out").exists()
