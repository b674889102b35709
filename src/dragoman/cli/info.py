"""``dragoman info``: what a model or a configuration holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import common
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.bundle import Bundle
    from dragoman.config import ModelConfig
    from dragoman.model.transformer import Transformer

# The first part of a parameter's name -> what it is counted as. A tied matrix bears its first name alone.
_PARTS = {
    "src_embedding": "embeddings",
    "tgt_embedding": "embeddings",
    "src_positions": "positions",
    "tgt_positions": "positions",
    "encoder": "encoder",
    "decoder": "decoder",
    "output": "output",
}
_TIED = {
    "none": "nothing is tied",
    "decoder": "the output matrix is the target embedding, counted there",
    "all": "one matrix is both embeddings and the output, counted once",
}


def info(
    source: Annotated[Path, typer.Argument(metavar="MODEL|CONFIG", help="A model directory or a configuration file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="FORMAT", help="Say only what dragoman convert --to FORMAT would do."),
    ] = None,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Show a model's parameters by part, its sizes, vocabularies, scores and settings; or what a configuration makes.

    \b
    Example:
      dragoman info runs/demo/best
      dragoman info recipes/multi30k-en-de.yaml
      dragoman info runs/demo/best --export marian
    """
    if not source.exists():
        raise DataError(f"{source} does not exist; give a model directory or a configuration file.")
    facts = _model(source, export) if source.is_dir() else _configuration(source, export)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    # Who asks what an export would do reads its answer, not everything else.
    verdict = {name: value for name, value in facts.items() if name.startswith("export to ")}
    print(_text(verdict or facts))


def _model(folder: Path, export: str | None) -> dict[str, Any]:
    """The facts of a model directory, which is read whole, so that what is shown can be loaded."""
    from dragoman.bundle import load_bundle

    bundle = load_bundle(folder)
    src, tgt = bundle.tokenizers.src, bundle.tokenizers.tgt
    config = bundle.model.config
    parameters = parameters_by_part(bundle.model)
    stored = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    return {
        "model": str(folder),
        "languages": f"{bundle.src_lang} -> {bundle.tgt_lang}",
        "vocabulary": {
            "kind": src.kind if src.kind == tgt.kind else f"{src.kind}, {tgt.kind}",
            "joint": bundle.tokenizers.joint,
            "src": src.vocab_size,
            "tgt": tgt.vocab_size,
        },
        "parameters": parameters,
        "tied": _TIED[config.tie_embeddings],
        "size": {"on disk": _megabytes(stored), **_memory(parameters["total"])},
        "scores": card_scores(bundle.card),
        "settings": {"model": config.model_dump(mode="json"), "decode": bundle.decode.model_dump(mode="json")},
        **_export(export, bundle),
    }


def _configuration(path: Path, export: str | None) -> dict[str, Any]:
    """The facts of a training configuration; nothing is read but the file itself."""
    from dragoman.configfile import load_config

    config = load_config(path)
    from dragoman.bundle import empty_model

    most = config.tokenizer.vocab_size
    shape = config.model.changed(src_vocab_size=most, tgt_vocab_size=most)
    parameters = parameters_by_part(empty_model(shape, "meta"))
    return {
        "configuration": str(path),
        "languages": f"{config.data.src_lang} -> {config.data.tgt_lang}",
        "vocabulary": {
            "kind": config.tokenizer.kind,
            "joint": config.tokenizer.joint,
            "size": f"unknown before the tokenizer is trained; counted below with its most, {most:,} a side",
        },
        "parameters": parameters,
        "tied": _TIED[shape.tie_embeddings],
        "size": _memory(parameters["total"]),
        "settings": config.model_dump(mode="json"),
        **_export(export, shape, config.tokenizer.kind),
    }


def _export(name: str | None, what: Bundle | ModelConfig, tokenizer: str | None = None) -> dict[str, Any]:
    """What an export to the format would rewrite and refuse; nothing where no format was asked for.

    Of a configuration its shape and the kind of its ``tokenizer`` are judged: the vocabulary is not there yet.
    """
    if name is None:
        return {}
    from dragoman import interop
    from dragoman.config import ModelConfig

    if isinstance(what, ModelConfig):
        way = interop.plan_export(name, what, tokenizer)
    else:
        way = interop.plan_save(what, name)
    return {f"export to {name}": {"possible": not way.refused, "rewritten": way.steps, "refused": list(way.refused)}}


def parameters_by_part(model: Transformer) -> dict[str, int]:
    """The number of parameters of each part that has any, a tied matrix counted once, and their ``total``."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = _PARTS[name.partition(".")[0]]
        counts[part] = counts.get(part, 0) + parameter.numel()
    return {**counts, "total": sum(counts.values())}


def _megabytes(size: float) -> dict[str, float]:
    return {"MB": round(size / 1e6, 2), "MiB": round(size / 2**20, 2)}


def _memory(parameters: int) -> dict[str, dict[str, float]]:
    return {"weights in fp32": _megabytes(4 * parameters), "weights in bf16": _megabytes(2 * parameters)}


def card_scores(card: str) -> list[dict[str, str]]:
    """The rows of each table in a model card (Markdown) that has a column ``signature``.

    The head of the first column says what was scored (``on``), its cells are the metrics.
    """
    rows: list[dict[str, str]] = []
    header: list[str] = []
    for line in card.splitlines():
        # A signature has bars of its own, escaped or not, between backticks.
        shielded = re.sub("`[^`]*`", lambda match: re.sub(r"\\?\|", "\0", match.group()), line.strip())
        cells = [cell.replace("\0", "|").strip(" `") for cell in shielded.strip("|").split("|")]
        if not shielded.startswith("|"):
            header = []
        elif not header:
            header = cells
        elif "signature" in header and not set("".join(cells)) <= set("-: "):
            rest = dict(zip(header[1:], cells[1:], strict=False))
            rows.append({"on": header[0], "metric": cells[0], **rest})
    return rows


def _text(facts: dict[str, Any]) -> str:
    """The facts for a person to read."""
    lines: list[str] = []
    for name, value in facts.items():
        if name == "parameters":
            lines += ["parameters:", *(f"  {part:<12}{count:>15,}" for part, count in value.items())]
        elif name == "size":
            lines += [
                "size:",
                *(f"  {part:<16}{one['MB']:>11,.2f} MB {one['MiB']:>11,.2f} MiB" for part, one in value.items()),
            ]
        elif name.startswith("export to "):
            lines.append(f"{name}: " + ("possible" if value["possible"] else "refused"))
            lines += [f"  rewritten exactly: {step}" for step in value["rewritten"]]
            lines += [f"  refused: {reason}" for reason in value["refused"]]
        elif name == "scores":
            lines += ["scores, from the model card:"] if value else ["scores: none in the model card"]
            lines += [f"  {row['on']}: " + "  ".join(list(filter(None, row.values()))[1:]) for row in value]
        else:
            lines += _nested(name, value)
    return "\n".join(lines)


def _nested(name: str, value: Any, indent: str = "") -> list[str]:
    """A setting, or a section of them below its name."""
    if not isinstance(value, dict):
        return [f"{indent}{name}: {json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value}"]
    return [f"{indent}{name}:", *(line for key, inner in value.items() for line in _nested(key, inner, indent + "  "))]
