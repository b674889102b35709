"""The bundled bitext: English sentences and their German, from a grammar of our own.

Words: ``data/*.txt``, read by ``nouns``, ``verbs`` and ``words``, counted in ``lexicon``.
Inflection: ``german``, ``numerals``. Phrases and clauses in both languages:
``phrases``, ``clause``, ``order``, ``frames``. Chance: ``draw``, ``scenes``, ``patterns``. Then the ``splits`` and a
``neighbour`` baseline.

Every English sentence has one German: you is always Sie, a simple past is a Perfekt (but war, hatte and modals), and
English that could be read in two ways is not made.
"""

from dragoman.phrasebook.lexicon import lemmas
from dragoman.phrasebook.neighbour import nearest_neighbour
from dragoman.phrasebook.splits import Pair, PhrasebookSplits, generate, held_out

__all__ = ["Pair", "PhrasebookSplits", "generate", "held_out", "lemmas", "nearest_neighbour"]
