"""Search over ``step(tokens, state, parents) -> logits``; knows no model."""

from dragoman.decoding.beam import beam_search as beam_search
from dragoman.decoding.hypothesis import Hypothesis as Hypothesis
from dragoman.decoding.length import length_norm as length_norm
from dragoman.decoding.sampling import sample as sample
from dragoman.decoding.scoring import score_targets as score_targets
from dragoman.decoding.step import Step as Step
