"""``python -m dragoman.engine.build FILE``: compiles the step of a model's shape, given as JSON on standard input."""

from __future__ import annotations

import sys

import torch
from torch.export import Dim, export

from dragoman.config import ModelConfig
from dragoman.engine.compiled import example
from dragoman.engine.onerow import OneRow
from dragoman.model.transformer import Transformer

_OPTIONS = {
    # The weights come when the code is loaded.
    "aot_inductor.package_constants_in_so": False,
    # A row is too little work to be shared out.
    "cpp.threads": 1,
    # A product and a sum in one instruction, as in every library of matrix products.
    "cpp.enable_floating_point_contract_flag": "fast",
}


@torch.no_grad()
def build(config: ModelConfig, path: str) -> None:
    """Write the machine code of :class:`OneRow` for ``config`` to ``path``, any number of slots and source tokens."""
    from torch._inductor import aoti_compile_and_package

    given = example(config)
    slots, source = Dim("slots", min=2), Dim("source", min=2)
    layers = range(config.n_decoder_layers)
    shapes = (
        None,
        None,
        None,
        [{1: slots} for _ in layers],
        [{1: source} for _ in layers],
        [{1: source} for _ in layers],
    )
    program = export(OneRow(Transformer(config).eval()), given, dynamic_shapes=shapes)
    aoti_compile_and_package(program, package_path=path, inductor_configs=_OPTIONS)


if __name__ == "__main__":
    build(ModelConfig.model_validate_json(sys.stdin.read()), sys.argv[1])
