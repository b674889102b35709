"""``dragoman info``: what a model or a configuration holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import common
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.config import ModelConfig


def info(
    source: Annotated[Path, typer.Argument(metavar="MODEL|CONFIG", help="A model directory or a configuration file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Show a model's parameters by part, its sizes, settings and vocabularies; or the settings of a configuration.

    \b
    Example:
      dragoman info runs/demo/best
      dragoman info recipes/multi30k-en-de.yaml
    """
    if not source.exists():
        raise DataError(f"{source} does not exist; give a model directory or a configuration file.")
    facts = _model(source) if source.is_dir() else _configuration(source)
    print(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else "\n".join(_lines(facts)))


def _model(folder: Path) -> dict[str, Any]:
    from dragoman.bundle import load_bundle

    bundle = load_bundle(folder)
    tokenizers = bundle.tokenizers
    return {
        "model": str(folder),
        "languages": f"{bundle.src_lang} -> {bundle.tgt_lang}",
        "vocabulary": {
            "kind": tokenizers.src.kind,
            "joint": tokenizers.joint,
            "src": tokenizers.src.vocab_size,
            "tgt": tokenizers.tgt.vocab_size,
        },
        "parameters": parameters_by_part(bundle.model.config),
        "settings": bundle.model.config.model_dump(mode="json"),
        "decode": bundle.decode.model_dump(mode="json"),
    }


def _configuration(path: Path) -> dict[str, Any]:
    from dragoman.configfile import load_config

    config = load_config(path)
    model = config.model
    joint = config.tokenizer.joint
    sizes = {
        "src_vocab_size": model.src_vocab_size or config.tokenizer.vocab_size,
        "tgt_vocab_size": model.tgt_vocab_size or config.tokenizer.vocab_size,
    }
    return {
        "configuration": str(path),
        "languages": f"{config.data.src_lang} -> {config.data.tgt_lang}",
        "vocabulary": {"kind": config.tokenizer.kind, "joint": joint, "at most": config.tokenizer.vocab_size},
        "parameters": parameters_by_part(model.changed(**sizes)),
        "settings": config.model_dump(mode="json"),
    }


def parameters_by_part(config: ModelConfig) -> dict[str, Any]:
    """Parameters of each part, a tied matrix counted once, and their size in float32."""
    import torch

    from dragoman.model.transformer import Transformer

    with torch.device("meta"):
        model = Transformer(config)
    counts: dict[str, int] = {}
    names = {
        "src_embedding": "source embedding" if config.tie_embeddings != "all" else "embedding (source, target, output)",
        "tgt_embedding": "target embedding" if config.tie_embeddings != "decoder" else "target embedding and output",
        "src_positions": "positions",
        "tgt_positions": "positions",
    }
    for name, parameter in model.named_parameters():
        part = names.get(name.partition(".")[0], name.partition(".")[0])
        counts[part] = counts.get(part, 0) + parameter.numel()
    total = sum(counts.values())
    return {**counts, "total": total, "MB": round(4 * total / 1e6, 2), "MiB": round(4 * total / 2**20, 2)}


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in facts.items():
        if not isinstance(value, dict):
            lines.append(f"{name}: {value}")
            continue
        lines.append(f"{name}:")
        width = max(map(len, value))
        for key, inner in value.items():
            shown = f"{inner:>14,}" if name == "parameters" and isinstance(inner, int) else f"{inner}"
            if name == "parameters" and isinstance(inner, float):
                shown = f"{inner:>14,.2f}"
            lines.append(f"  {key:<{width}}  {shown}")
    return lines
