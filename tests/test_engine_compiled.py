"""The step of one hypothesis, compiled and as it is written for the compiler: the model's; and where there is none."""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.search import search
from dragoman.engine import Engine, Steps, compiled, fast
from dragoman.engine import engine as engine_module
from dragoman.engine.compiled import CompiledRow, cache_folder, compiled_row
from dragoman.engine.onerow import OneRow
from dragoman.model import masks
from dragoman.model.transformer import Transformer
from model_variants import VARIANTS, V, close, make
from tolerances import FLOAT32

# Every kind of part that "modern" has: rotary positions, shared heads, a gate, rms norms, no biases, tied embeddings.
SHAPE = ("modern", {"n_decoder_layers": 1})
SOURCE = torch.tensor([[5, 9, 4, 3]])


@pytest.fixture(autouse=True)
def _every_warning_is_new() -> None:
    compiled.go_on_without.cache_clear()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dragoman"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the compiled step of SHAPE."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        assert compiled_row(model()) is not None
    return folder


@pytest.fixture
def ready(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, and nothing can be compiled any more."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(made))
    monkeypatch.setattr(subprocess, "run", fails)
    return made / "dragoman"


def fails(*args: Any, **named: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], 1, "", "a long story\nInvalidCxxCompiler: No working C++ compiler\n")


def model(seed: int = 0, **changes: Any) -> Transformer:
    name, shape = SHAPE
    one = make(name, torch.float32, **{**shape, **changes})
    if seed:
        torch.manual_seed(seed)
        for weight in one.parameters():
            torch.nn.init.normal_(weight, std=0.3)
    return one


def engine_of(one: Transformer, *, compile: bool = True) -> Engine:  # noqa: A002
    engine = fast(one, compile=compile)
    assert isinstance(engine, Engine)
    return engine


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    ours = [record for record in caplog.records if record.name == "dragoman"]
    return [record.getMessage() for record in ours if record.levelno >= logging.WARNING]


class Uncompiled:
    """What is compiled, run as it is, in place of :class:`CompiledRow`."""

    def __init__(self, one: Transformer) -> None:
        self.row, self.calls = OneRow(one), 0

    @torch.inference_mode()
    def __call__(self, *given: Any) -> Tensor:
        self.calls += 1
        logits: Tensor = self.row(*given)
        return logits


@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_one_row_computes_what_the_model_does(name: str) -> None:
    one = make(name, torch.float32)
    engine = engine_of(one, compile=False)
    engine.row = row = Uncompiled(one)  # type: ignore[assignment]
    memory = one.encode(SOURCE)
    plain, ours = one.start(memory), engine.start(memory)
    for step in range(15):
        token = torch.tensor([step * 7 % V])
        close(engine.step(token, ours), one.step(token, plain), FLOAT32)
    assert row.calls == 15


@torch.no_grad()
def test_one_row_takes_over_and_hands_back_at_any_step() -> None:
    """More slots than at first, and rows that come and go: what others stored is read, and the other way round."""
    one = make("paper", torch.float32)
    engine = engine_of(one, compile=False)
    engine.row = row = Uncompiled(one)  # type: ignore[assignment]
    memory = one.encode(SOURCE)
    plain, ours = one.start(memory), engine.start(memory)
    draw = torch.Generator().manual_seed(0)

    def step(rows: int, parents: list[int] | None = None) -> None:
        tokens = torch.randint(0, V, (rows,), generator=draw)
        moved = None if parents is None else torch.tensor(parents)
        close(engine.step(tokens, ours, moved), one.step(tokens, plain, moved), FLOAT32)

    for _ in range(40):
        step(1, [0])
    step(3, [0, 0, 0])
    step(2, [2, 1])
    step(1, [1])
    step(1)
    # Two sentences of which one goes on alone.
    src = torch.tensor([[5, 9, 4, 3], [7, 3, 1, 1]])
    for kept, mask in ((0, None), (1, None), (1, masks.from_lengths(torch.tensor([4, 2])))):
        memory = one.encode(src, mask)
        plain, ours = one.start(memory, mask), engine.start(memory, mask)
        step(2)
        step(1, [kept])
        step(1, [0])
    memory = one.encode(SOURCE[:, :1])
    plain, ours = one.start(memory), engine.start(memory)
    step(1)
    # Neither a beam nor padding nor a source of one token is for it.
    assert row.calls == 40 + 2


@pytest.mark.slow
class TestCompiled:
    @torch.no_grad()
    def test_it_computes_what_the_model_does(self, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        one = model()
        engine = engine_of(one)
        assert isinstance(engine.row, CompiledRow)
        run, calls = engine.row._run, []
        monkeypatch.setattr(engine.row, "_run", lambda given: calls.append(1) or run(given))
        for length in (2, 3, 30):
            src = torch.arange(length)[None] % V
            memory = one.encode(src)
            plain, ours = one.start(memory), engine.start(memory)
            for step in range(40):
                token = torch.tensor([step * 5 % V])
                logits = engine.step(token, ours)
                close(logits, one.step(token, plain), FLOAT32)
                logits[:, 0] = 0.0  # a search may
        assert len(calls) == 3 * 40

    def test_searches_find_the_same(self, ready: Path) -> None:
        one = model(seed=3)
        with_it, without = engine_of(one), engine_of(one, compile=False)

        def found(engine: Steps, source: list[int], beam: int) -> list[int]:
            state = engine.start(engine.encode(torch.tensor([source])))
            config = DecodeConfig(beam_size=beam)
            best = search(engine.step, state, 1, config, bos_id=2, eos_id=3, limits=[20])[0][0]
            return best.tokens

        draw = torch.Generator().manual_seed(0)
        for beam in (1, 4):
            for _ in range(8):
                source = torch.randint(4, V, (6,), generator=draw).tolist()
                assert found(with_it, source, beam) == found(without, source, beam)

    def test_models_of_a_shape_share_it_and_it_holds_no_weights(self, ready: Path) -> None:
        assert len(list(ready.iterdir())) == 1
        one, other = model(), model(seed=1, n_encoder_layers=1, dropout=0.3)
        first, second = engine_of(one), engine_of(other)
        assert first.row is not None
        assert second.row is not None
        src = SOURCE
        for plain, engine in ((one, first), (other, second)):
            with torch.no_grad():
                memory = plain.encode(src)
                close(
                    engine.step(torch.tensor([2]), engine.start(memory)),
                    plain.step(torch.tensor([2]), plain.start(memory)),
                    FLOAT32,
                )

    def test_a_consumed_model_leaves_it_its_weights(self, ready: Path) -> None:
        kept, spent = model(), model()
        engine = fast(spent, compile=True, consume=True)
        del spent
        assert isinstance(engine, Engine)
        assert engine.row is not None
        memory = kept.encode(SOURCE).detach()
        with torch.no_grad():
            theirs = kept.step(torch.tensor([2]), kept.start(memory))
        close(engine.step(torch.tensor([2]), engine.start(memory)), theirs, FLOAT32)

    def test_a_foreign_token_is_an_error(self, ready: Path) -> None:
        engine = engine_of(model())
        with pytest.raises((IndexError, RuntimeError)):
            engine.step(torch.tensor([V]), engine.start(engine.encode(SOURCE)))

    def test_code_for_another_shape_is_not_used(
        self, ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        other = model(norm_first=False)
        name = f"onerow-{compiled._key(other.config)}.pt2"
        (cache_folder() / name).write_bytes(next(ready.iterdir()).read_bytes())
        assert engine_of(other).row is None
        assert "computes something else; remove it to have it made again" in warnings_of(caplog)[0]


def test_without_a_compiler_decoding_goes_on_and_says_so_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(subprocess, "run", fails)
    for _ in range(2):
        engine = engine_of(model())
        assert engine.row is None
        assert engine.step(torch.tensor([2]), engine.start(engine.encode(SOURCE))).shape == (1, V)
    assert warnings_of(caplog) == [
        "no compiled step, decoding goes on without: "
        "the compiler failed (InvalidCxxCompiler: No working C++ compiler); PyTorch needs a C++ compiler, such as g++."
    ]
    assert list(cache.iterdir()) == []


def test_a_broken_file_is_not_used(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = cache_folder() / f"onerow-{compiled._key(model().config)}.pt2"
    path.write_bytes(b"not a package")
    assert engine_of(model()).row is None
    assert f"{path} cannot be used" in warnings_of(caplog)[0]


@pytest.mark.parametrize("kind", ["others", "a file"])
def test_a_cache_that_others_may_write_to_is_not_used(
    kind: str, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *args, **named: pytest.fail("compiled into a place that is no cache"))
    if kind == "others":
        cache.mkdir(parents=True)
        os.chmod(cache, 0o777)
    else:
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text("in the way")
    assert engine_of(model()).row is None
    expected = {"others": f"others may write to {cache}", "a file": "there is no cache to keep it in"}
    assert expected[kind] in warnings_of(caplog)[0]


def test_the_cache_is_the_users_and_private(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == cache
    assert cache.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    assert cache_folder() == tmp_path / "inductor" / "dragoman"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), "torchinductor_somebody"))
    assert cache_folder() == cache
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "dragoman"


def test_what_the_step_depends_on_makes_another_file() -> None:
    base = model().config
    assert compiled._key(base) == compiled._key(base.changed(n_encoder_layers=5, dropout=0.4, src_vocab_size=V))
    for change in ({"d_ff": 64}, {"norm_first": False}, {"norm_eps": 1e-3}, {"tie_embeddings": "none"}):
        assert compiled._key(base) != compiled._key(base.changed(**change))


def test_a_large_model_goes_on_without(
    caplog: pytest.LogCaptureFixture, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights come from memory in each step: there the packed products are faster (docs/results.md)."""
    small = model()
    monkeypatch.setattr(engine_module, "SMALL_MODEL", sum(p.numel() for p in small.parameters()) - 1)
    large = fast(small, compile=True)
    assert isinstance(large, Engine)
    assert large.row is None
    assert not cache.exists()
    limit = f"{engine_module.SMALL_MODEL:,}"
    wanted = f"no compiled step, decoding goes on without: above {limit} weights the packed step is faster."
    assert warnings_of(caplog) == [wanted]


def test_int8_and_models_without_an_engine_go_on_without(caplog: pytest.LogCaptureFixture, cache: Path) -> None:
    engine = fast(model(), "int8", compile=True)
    assert isinstance(engine, Engine)
    assert engine.row is None
    wide = make("ours", torch.float64)
    assert fast(wide, compile=True) is wide
    assert warnings_of(caplog) == ["no compiled step, decoding goes on without: it needs float32 on an x86 processor."]


def test_nothing_is_compiled_unless_asked_for(cache: Path) -> None:
    assert engine_of(model(), compile=False).row is None
    assert not cache.exists()
