"""The text of a run on several ranks: rank 0 prepares it, the others map what it wrote."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from dragoman.config import RunConfig
from dragoman.errors import RunError
from dragoman.text.tokenizer import TokenizerPair
from dragoman.training.prepare import Pairs, Prepared, open_corpus, prepare, stored_text
from dragoman.training.ranks import Ranks
from dragoman.training.report import Reporter

# A network file system may show a new file to another machine late: NFS caches a folder for up to a minute.
_SECONDS_TO_APPEAR = 90.0


def prepare_once(
    config: RunConfig, folder: Path, base: TokenizerPair | None, reporter: Reporter, ranks: Ranks
) -> Prepared:
    """:func:`dragoman.training.prepare.prepare` on rank 0; the other ranks open the outcome.

    Raises :class:`DataError` as that does, and :class:`RunError` where a rank does not see ``folder``.
    """
    prepared: Prepared | None = None

    def work() -> dict[str, Any]:
        nonlocal prepared
        prepared = prepare(config, folder, base, reporter)
        return {"valid": prepared.valid, "test": prepared.test}

    texts = ranks.decide(work)
    if prepared is not None:
        return prepared
    _await(stored_text(config, folder) / "corpus.json", folder.parent)
    tokenizers, valid = TokenizerPair.load(folder / "tokenizer"), _pairs(texts["valid"])
    corpus = open_corpus(config, folder, tokenizers, valid)
    return Prepared(tokenizers, corpus, valid, _pairs(texts["test"]))


def _pairs(lists: list[list[str]] | None) -> Pairs | None:
    return None if lists is None else [(src, tgt) for src, tgt in lists]


def _await(path: Path, run: Path) -> None:
    end = time.monotonic() + _SECONDS_TO_APPEAR
    while not path.exists():
        if time.monotonic() > end:
            raise RunError(
                f"{socket.gethostname()} does not see {path}, which rank 0 wrote; choose an --out on a file system "
                f"that all machines share, not {run}."
            )
        time.sleep(0.2)
