"""Split a corpus of many translations a sentence, such as Tatoeba's, so that no sentence stands on two sides.

    python recipes/split_clusters.py deu-eng.tsv.gz FOLDER --test 2000 --valid 1000

Pairs that share a sentence of either language, directly or through other pairs, are one cluster. Whole clusters are
drawn by a hash of the seed and their sentences, so the order of the file is nothing; one pair of each drawn cluster is
tested, its other pairs are left out, and everything else trains. Writes train.tsv, valid.tsv and test.tsv.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.config import TableCorpus
from dragoman.errors import DragomanError
from dragoman.files import atomic_file
from dragoman.text.readers import read_pairs

Pair = tuple[str, str]
Node = tuple[int, str]

_LINE_ENDS = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


def nodes(pair: Pair) -> tuple[Node, Node]:
    """A pair's two sentences; those that differ in case, white space or Unicode composition are the same."""
    src, tgt = (" ".join(unicodedata.normalize("NFC", text.casefold()).split()) for text in pair)
    return (0, src), (1, tgt)


def clusters(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """The pairs of each connected part of the graph whose edges they are."""
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for pair in pairs:
        src, tgt = nodes(pair)
        parent[root(src)] = root(tgt)
    parts: dict[Node, list[Pair]] = {}
    for pair in pairs:
        parts.setdefault(root(nodes(pair)[0]), []).append(pair)
    return list(parts.values())


def rank(seed: int, pair: Pair) -> bytes:
    """A place in a random order that depends on the seed and the sentences alone."""
    text = "\0".join((str(seed), *(text for _, text in nodes(pair))))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def split(pairs: Sequence[Pair], test: int, valid: int, seed: int) -> dict[str, list[Pair]]:
    """``test`` and ``valid`` pairs of as many clusters, and for ``train`` the pairs of all the others."""
    drawn = sorted(clusters(pairs), key=lambda part: min(rank(seed, pair) for pair in part))
    chosen = [min(part, key=lambda pair: rank(seed, pair)) for part in drawn[: test + valid]]
    held = {node for part in drawn[: test + valid] for pair in part for node in nodes(pair)}
    train = [pair for pair in pairs if held.isdisjoint(nodes(pair))]
    return {"train": train, "valid": chosen[test:], "test": chosen[:test]}


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """A row a pair; tabs and line ends inside of a sentence become spaces."""
    with atomic_file(path) as file:
        file.writelines("\t".join(_LINE_ENDS.sub(" ", text) for text in pair) + "\n" for pair in pairs)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="a .tsv or .csv file, plain or .gz")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--valid", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        corpus = TableCorpus(path=[args.path], src_field=0, tgt_field=1)
        pairs = [pair for pair in read_pairs(corpus) if all(text.strip() for text in pair)]
        parts = split(pairs, args.test, args.valid, args.seed)
        if not parts["train"]:
            sys.exit(f"split_clusters: {len(pairs):,} pairs leave none to train on; hold out fewer.")
        args.folder.mkdir(parents=True, exist_ok=True)
        for name, part in parts.items():
            write(args.folder / f"{name}.tsv", part)
    except DragomanError as error:
        sys.exit(f"split_clusters: {error}")
    written = ", ".join(f"{len(part):,} to {name}.tsv" for name, part in parts.items())
    print(f"{len(pairs):,} pairs: {written}, {len(pairs) - sum(map(len, parts.values())):,} left out", file=sys.stderr)


if __name__ == "__main__":
    main()
