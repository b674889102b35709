"""Look inside a pass without changing the model: what went into each feed-forward part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn

from dragoman.model.feedforward import FeedForward, GatedFeedForward


@contextmanager
def feed_forward_inputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep the input [B,T,D] of every feed-forward part in ``model`` by the part's name while the block lasts.

    ``with feed_forward_inputs(model) as inputs: model(src, tgt)``, then ``inputs["encoder.layers.0.feed_forward"]``:
    the normed vectors where the norm comes first. A later pass in the block replaces an earlier one; nothing is
    stored on the modules.
    """
    inputs: dict[str, Tensor] = {}

    def keep(name: str, _: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        inputs[name] = arguments[0]

    handles = [
        part.register_forward_pre_hook(partial(keep, name))
        for name, part in model.named_modules()
        if isinstance(part, FeedForward | GatedFeedForward)
    ]
    try:
        yield inputs
    finally:
        for handle in handles:
            handle.remove()
