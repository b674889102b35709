"""Three small random models, and a server of all of them: two from English to German, one back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bundles import make_bundle
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


@contextlib.contextmanager
def serving_all(models: Path) -> Iterator[Server]:
    """A server of what :func:`save_models` wrote: en-de, second, de-en."""
    with serving(models / "first", f"second={models / 'second'}", models / "back") as running:
        yield running
        assert not any("Traceback" in line for line in running.log)
