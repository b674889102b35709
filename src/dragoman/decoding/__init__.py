"""Search over ``step(tokens, state, parents) -> logits``; knows no model."""

from dragoman.decoding.hypothesis import Hypothesis as Hypothesis
from dragoman.decoding.length import length_norm as length_norm
from dragoman.decoding.phrases import Phrase as Phrase
from dragoman.decoding.scoring import score_targets as score_targets
from dragoman.decoding.search import Search as Search
from dragoman.decoding.search import make_search as make_search
from dragoman.decoding.search import run as run
from dragoman.decoding.search import search as search
from dragoman.decoding.step import Step as Step
