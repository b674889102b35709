"""How many programs oneDNN keeps: it writes one for each shape of a product that it meets."""

from __future__ import annotations

import os

# A step or an update has some ten to thirty shapes. A program costs 0.2 ms to write and some 200 kB to keep.
_PROGRAMS = 64


def keep_few_programs() -> None:
    """Let oneDNN and PyTorch's layer above it keep 64 programs each, unless the environment says otherwise.

    By default each keeps a thousand. Batches differ in shape, so a long translation or training gathers gigabytes of
    programs that hardly come again: 5,000 sentences with a small model and a beam of 5 took 1.45 GB, and take 0.65 GB
    in the same time. Both libraries read their variable at the first product, not when they are imported.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(_PROGRAMS))
