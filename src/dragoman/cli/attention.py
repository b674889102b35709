"""``dragoman attention``: where a model looked while it translated, or how its search found the translation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import common
from dragoman.errors import DataError, UsageError

if TYPE_CHECKING:
    from dragoman.text.tokenizer import Tokenizer
    from dragoman.translator import Translator

_KINDS = ("cross", "encoder", "decoder")


def attention(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, such as runs/demo/best.")],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="A sentence of the source language.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A page (.html), a picture (.png, .svg) or .json. [attention.html; attention.png where a choice is "
            "made for a picture; search.html with --beam]",
        ),
    ] = None,
    tgt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at this translation, not at the model's own.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Between whole words in place of tokens.")] = False,
    beam: Annotated[
        bool, typer.Option("--beam", help="In place of the attention: the search as a tree to step through.")
    ] = False,
    kind: Annotated[str | None, typer.Option(metavar="cross|encoder|decoder", help="In a picture. [cross]")] = None,
    layer: Annotated[str | None, typer.Option(metavar="N|all", help="In a picture, from 1. [the last]")] = None,
    head: Annotated[str | None, typer.Option(metavar="N|mean|all", help="In a picture, from 1. [mean]")] = None,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Exponent A of the length norm.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads. Default: all processors.")] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to compute.")] = "auto",
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Show where a model looked while it translated a sentence: every layer, every head, and their mean.

    The page is one file that works offline. A picture shows one map; --layer all or --head all show many small ones.
    A page and a picture take up to 256 tokens on either side; .json holds whatever sentence the model takes.
    With --beam the page shows how the search found the translation: each step's candidates, their scores, what was
    pruned, what finished, and what another length penalty would have preferred.

    \b
    Example:
      dragoman attention runs/demo/best "The old man reads a book."
      dragoman attention runs/demo/best "The old man reads a book." --head all -o heads.png
      dragoman attention runs/demo/best "The old man reads a book." --beam -o search.html
    """
    from dragoman.visualize.figure import require_matplotlib

    chosen = {"--kind": kind, "--layer": layer, "--head": head}
    output = _checked_output(output, beam, next((name for name, value in chosen.items() if value is not None), None))
    ending = output.suffix.lower()
    is_picture = ending in (".png", ".svg")
    if beam and (tgt is not None or words):
        raise UsageError("--beam shows the search for a translation; leave out --tgt and --words.")
    if kind is not None and kind not in _KINDS:
        raise UsageError(f'there is no attention of the kind "{kind}"; use {", ".join(_KINDS)}.')
    if tgt is not None and (beam_size is not None or length_penalty is not None):
        own = "--beam-size" if beam_size is not None else "--length-penalty"
        raise UsageError(f"{own} is for a search, and --tgt is looked at as it is; leave one of them out.")
    where = _index("--layer", layer, ("all",)), _index("--head", head, ("all", "mean"))
    if not sentence.strip():
        raise DataError("the sentence is blank, so there is nothing to look at; give one with words.")
    if tgt is not None and not tgt.strip():
        raise DataError("--tgt is blank, so there is nothing to look at; give a translation, or leave it out.")
    if is_picture:
        require_matplotlib()
    common.prepare_runtime(threads)
    from dragoman.translator import Translator

    translator = Translator.load(model, device)
    named = {"beam_size": beam_size, "length_penalty": length_penalty}
    options = {name: value for name, value in named.items() if value is not None}
    drawn = not beam and ending != ".json"
    _check_length(translator, "the sentence", translator.bundle.tokenizers.src, sentence, drawn)
    if tgt is not None:
        _check_length(translator, "--tgt", translator.bundle.tokenizers.tgt, tgt, drawn)
    if is_picture:
        _check_map(translator, kind or "cross", *where)
    if beam:
        _write_search(translator, sentence, options, output)
    else:
        _write_attention(translator, sentence, tgt, options, output, words, kind or "cross", *where)
    common.logger.info("written to %s", output)


def _checked_output(output: Path | None, beam: bool, given: str | None) -> Path:
    """Where to write: ``output``, or a name by what is asked for. ``given`` is an option that chooses a picture.

    Raises :class:`UsageError` for an ending that cannot hold it, and for a choice that nothing shows.
    """
    from dragoman.visualize.figure import check_format

    if beam and given is not None:
        raise UsageError(f"{given} is for a picture of the attention, and --beam shows the search; leave one out.")
    if output is None:
        output = Path("search.html" if beam else "attention.html" if given is None else "attention.png")
    ending = check_format(output, (".html", ".json") if beam else (".html", ".png", ".svg", ".json"))
    if given is not None and ending not in (".png", ".svg"):
        raise UsageError(f"{given} chooses what a picture shows; write .png or .svg, or leave it out.")
    return output


def _index(option: str, text: str | None, names: tuple[str, ...]) -> int | str | None:
    """A number from 0, one of ``names``, or None; raises :class:`UsageError` for anything else."""
    if text is None or text in names:
        return text
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise UsageError(f'{option} is "{text}"; give a number from 1 or {" or ".join(names)}.')
    return int(text) - 1


def _check_length(translator: Translator, name: str, tokenizer: Tokenizer, text: str, drawn: bool) -> None:
    """Raises :class:`DataError` for a text of more tokens than the model takes or, ``drawn``, than can be shown."""
    from dragoman.visualize.maps import check_tokens

    count, most = len(translator.intake.with_special(tokenizer.encode(text))), translator.intake.max_length
    if count > most:
        raise DataError(f"{name} has {count:,} tokens and the model takes {most:,}; break it up.")
    if drawn:
        check_tokens(name, count)


def _check_map(translator: Translator, kind: str, layer: int | str | None, head: int | str | None) -> None:
    """Raises :class:`UsageError` for a layer or a head that the model has not got."""
    from dragoman.visualize.heatmap import checked_index

    shape = translator.model.config
    layers = shape.n_encoder_layers if kind == "encoder" else shape.n_decoder_layers
    for what, index, count in (("layer", layer, layers), ("head", head, shape.n_heads)):
        if isinstance(index, int):
            checked_index(what, index, count)


def _write_attention(
    translator: Translator,
    sentence: str,
    tgt: str | None,
    options: dict[str, Any],
    output: Path,
    words: bool,
    kind: str,
    layer: int | str | None,
    head: int | str | None,
) -> None:
    from dragoman.files import write_json, write_text
    from dragoman.visualize.maps import AttentionMaps, check_tokens

    ending = output.suffix.lower()
    if tgt is None:
        # One translation is shown, so one is asked for, whatever the model's default says.
        found = translator.translate(sentence, attention=True, **{"n_best": 1, **options})
    else:
        found = translator.force(sentence, tgt, attention=True)
    if ending != ".json":
        check_tokens("the translation", len(found.tokens))
    common.logger.info("%s", found.text)
    start = translator.bundle.tokenizers.tgt.tokens([translator.model.config.bos_id])[0]
    maps = AttentionMaps.of(sentence, found, translator.special, start)
    if ending == ".html":
        from dragoman.visualize.page import attention_page

        write_text(output, attention_page(maps, words))
        return
    maps = maps.of_words() if words else maps
    if ending == ".json":
        write_json(output, maps.fields())
        return
    from dragoman.visualize.figure import save_figure
    from dragoman.visualize.heatmap import attention_figure

    one = maps.map(kind)
    depth = None if layer == "all" else len(one.weights) - 1 if layer is None else int(layer)
    which = None if head == "all" else "mean" if head is None else head
    save_figure(attention_figure(one, depth, which, elsewhere=ending == ".svg"), output)


def _write_search(translator: Translator, sentence: str, options: dict[str, Any], output: Path) -> None:
    from dragoman.files import write_json, write_text
    from dragoman.visualize.replay import replay_data, replay_page

    found, record = translator.record(sentence, **options)
    common.logger.info("%s", found.text)
    tokenizer = translator.bundle.tokenizers.tgt

    def piece(index: int) -> str:
        return tokenizer.tokens([index])[0]

    if output.suffix.lower() == ".json":
        write_json(output, replay_data(sentence, found.text, record, piece))
    else:
        write_text(output, replay_page(sentence, found.text, record, piece))
