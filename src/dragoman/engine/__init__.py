"""The decoding step made fast on the CPU: the model's own interface, over weights laid out for the processor."""

from dragoman.engine.engine import Engine as Engine
from dragoman.engine.engine import Steps as Steps
from dragoman.engine.engine import fast as fast
