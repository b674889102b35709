"""Fixtures: three small random models, two from English to German and one back; servers of these, and of one model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bundles import make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from serving import Server, serving

DOCUMENT = "  Nobody found the key. Our neighbour paints.\n\n\tA cold wind blows! \n"


def save_models(folder: Path) -> Path:
    """Write them below ``folder``, as ``first``, ``second`` and ``back``; random, they say something of each text."""
    # Random models often say nothing at all.
    decode = DecodeConfig(beam_size=3, max_length_ratio=1.0, max_length_extra=6, min_length_ratio=0.5, min_length=5)
    save_bundle(replace(make_bundle(), decode=decode), folder / "first")
    save_bundle(replace(make_bundle(seed=9), decode=decode), folder / "second")
    back = replace(make_bundle(joint=False, seed=6), decode=decode, src_lang="de", tgt_lang="en")
    save_bundle(back, folder / "back")
    return folder


@pytest.fixture(scope="module", name="models")
def all_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the three models."""
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module", name="translator")
def translator_of_first(models: Path) -> Translator:
    """What the server's answers for ``en-de`` have to be."""
    return Translator.load(models / "first", device="cpu")


@pytest.fixture(scope="module", name="server")
def server_of_all(models: Path) -> Iterator[Server]:
    """A server of the three: en-de, second, de-en."""
    with serving(models / "first", f"second={models / 'second'}", models / "back") as running:
        yield running
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


@pytest.fixture(scope="module", name="translator")
def translator_of_one(model: Path) -> Translator:
    """What the answers of a server of ``model``, a fixture of the test's file, have to be."""
    return Translator.load(model, device="cpu")


@pytest.fixture(scope="module", name="server")
def server_of_one(model: Path) -> Iterator[Server]:
    """A server of that model."""
    with serving(model) as running:
        yield running
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)
