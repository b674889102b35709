"""The step of one hypothesis compiled by PyTorch's AOTInductor, kept in the user's cache and nowhere else.

What is kept is machine code for a shape: it holds no weights, so that all models of a shape share it, and it is never
read from a model directory. A folder that others could write to is not used.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import platform
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from dragoman import __version__
from dragoman.config import ModelConfig
from dragoman.engine import onerow
from dragoman.engine.onerow import OneRow
from dragoman.model import feedforward, norms
from dragoman.model.transformer import Transformer

logger = logging.getLogger("dragoman")

# A compiler that takes longer has gone wrong; six layers take less than a minute of one core.
_MOST_SECONDS = 900.0
# Compiled and eager sums differ by 1e-6 of the logits; code for another shape or processor by far more, if it runs.
_SAME = 1e-3
# Settings that the compiled step does not depend on. Any other, a new one too, makes another step.
_ELSEWHERE = frozenset(
    {"src_vocab_size", "n_encoder_layers", "max_length", "init", "embedding_init", "bias_init", "dropout",
     "attention_dropout", "activation_dropout", "embedding_dropout", "src_pad_id", "tgt_pad_id", "bos_id", "eos_id",
     "src_bos", "src_eos"}
)  # fmt: skip


class CannotCompileError(Exception):
    """Why there is no compiled step: the end of a sentence that goes on without one."""


class CompiledRow:
    """:class:`OneRow` as machine code, over the weights that the model has now."""

    def __init__(self, path: Path, row: OneRow) -> None:
        from torch._inductor import aoti_load_package

        package = aoti_load_package(str(path))
        state = {name: weight.detach() for name, weight in row.state_dict().items()}
        # Of weights that are tied one name is left. The code keeps addresses alone, so the tensors stay here.
        self._weights = {name: state[name] for name in package.get_constant_fqns()}
        package.load_constants(self._weights, check_full_update=True, user_managed=True)
        self._run = package.loader.run
        self._package = package

    def __call__(
        self,
        token: Tensor,
        place: Tensor,
        position: Tensor,
        slots: Sequence[Tensor],
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
    ) -> Tensor:
        """See :meth:`OneRow.forward`."""
        logits: Tensor = self._run([token, place, position, *slots, *keys, *values])[0]
        return logits


def compiled_row(model: Transformer) -> CompiledRow | None:
    """The compiled step of ``model``; compiled now where the cache lacks it, which takes up to a minute.

    None, with a warning, where that cannot be.
    """
    try:
        return _compiled_row(model)
    except CannotCompileError as error:
        go_on_without(str(error))
        return None


@functools.cache
def go_on_without(reason: str) -> None:
    """Warn that there is no compiled step; once for each reason."""
    logger.warning("no compiled step, decoding goes on without: %s", reason)


@torch.no_grad()
def _compiled_row(model: Transformer) -> CompiledRow:
    if not model.config.n_decoder_layers:
        raise CannotCompileError("the model has no decoder layers.")
    row = OneRow(model)
    folder = cache_folder()
    path = folder / f"onerow-{_key(model.config)}.pt2"
    if not path.exists():
        logger.info("compiling the decoding step of models of this shape; it is kept in %s.", folder)
        _compile(model.config, path)
    try:
        compiled = CompiledRow(path, row)
        given = example(model.config)
        ours, plain = compiled(*given), row(*given)
    except Exception as error:  # whatever PyTorch raises for code that it cannot load or run
        raise CannotCompileError(f"{path} cannot be used ({error}); remove it to have it made again.") from error
    if not torch.allclose(ours, plain, rtol=_SAME, atol=_SAME):
        raise CannotCompileError(f"{path} computes something else; remove it to have it made again.")
    return compiled


def cache_folder() -> Path:
    """Where compiled steps are kept, made if it is missing; private to the user.

    Raises :class:`CannotCompileError` where it cannot be made or others may write to it.
    """
    given, cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""), os.environ.get("XDG_CACHE_HOME")
    # PyTorch sets the variable itself, to a folder among everybody's temporary files: that is nobody's wish.
    if Path(given).name.startswith("torchinductor_") and Path(given).parent == Path(tempfile.gettempdir()):
        given = ""
    try:
        folder = Path(given or cache or Path.home() / ".cache") / "dragoman"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError) as error:
        raise CannotCompileError(f"there is no cache to keep it in ({error}); set XDG_CACHE_HOME.") from error
    foreign = hasattr(os, "getuid") and found.st_uid != os.getuid()
    if foreign or (os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise CannotCompileError(f"others may write to {folder}; make it your own, or set XDG_CACHE_HOME.")
    return folder


def example(config: ModelConfig) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """Arguments of :meth:`OneRow.forward`, some slots taken and some not."""
    slots, source, place = 32, 7, 3
    draw = torch.Generator().manual_seed(0)
    layers = range(config.n_decoder_layers)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    return (
        torch.tensor([config.eos_id]),
        torch.tensor([place]),
        random(1, config.d_head if config.positions == "rotary" else config.d_model),
        [random(config.kv_heads, slots, 2, config.d_head) for _ in layers],
        [random(config.kv_heads, source, config.d_head) for _ in layers],
        [random(config.kv_heads, source, config.d_head) for _ in layers],
    )


def _key(config: ModelConfig) -> str:
    """What the machine code depends on, as a name."""
    digest = hashlib.sha256()
    shape = {name: value for name, value in config.model_dump(mode="json").items() if name not in _ELSEWHERE}
    for part in (__version__, torch.__version__, _processor(), json.dumps(shape, sort_keys=True)):
        digest.update(part.encode() + b"\0")
    for module in (onerow, norms, feedforward):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:32]


def _processor() -> str:
    """What instructions this processor has, as far as the system says."""
    found = [platform.machine(), platform.processor(), torch.backends.cpu.get_cpu_capability()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return "\n".join(found + sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))


def _compile(config: ModelConfig, path: Path) -> None:
    """Compile in a process of its own, whose files and memory go away with it.

    Raises :class:`CannotCompileError`.
    """
    with tempfile.TemporaryDirectory(prefix=".compiling-", dir=path.parent) as scratch:
        made = Path(scratch) / path.name
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": scratch, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", "dragoman.engine.build", str(made)],
                input=config.model_dump_json(), text=True, capture_output=True, timeout=_MOST_SECONDS, env=environment,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotCompileError(f"the compiler could not be run ({error}).") from error
        if done.returncode or not made.exists():
            logger.debug("%s", done.stderr)
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise CannotCompileError(f"the compiler failed ({last}); PyTorch needs a C++ compiler, such as g++.")
        os.replace(made, path)
