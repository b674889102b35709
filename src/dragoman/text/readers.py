"""Readers of bitext, streaming and strict: what cannot be read is an error with its file and line.

A line ends at a line feed and nowhere else. ``U+2028``, ``NEL``, form feed, a lone carriage return or a NUL
inside a sentence stays inside it; one carriage return before the line feed belongs to the line's end.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dragoman.config import HubCorpus, TableCorpus, TextCorpus
from dragoman.errors import DataError, nearest

Pair = tuple[str, str]
Field = str | int
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
# Stands for a carriage return inside a CSV field, where the csv module would end the row; no UTF-8 decodes to it.
_RETURN = "\ud80d"
# Characters of a CSV field; the csv module's own limit is 131,072.
_LONGEST_FIELD = (1 << 31) - 1


@contextlib.contextmanager
def open_binary(path: str | Path) -> Iterator[Iterable[bytes]]:
    """The bytes of a file, unpacked where it is gzip by its first bytes. Raises :class:`DataError`."""
    path = Path(path)
    if "\0" in str(path):
        raise DataError(f"cannot read {str(path)!r}: no path holds a NUL; give the path of a readable file.")
    try:
        with path.open("rb") as stream:
            # Looked at without moving on, so that a pipe can be read too.
            if stream.peek(2)[:2] == _GZIP:
                with gzip.open(stream) as unpacked:
                    yield unpacked
            else:
                yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{path}: the gzip data is damaged or cut short; fetch the file again.") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; give a file.") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; give the path of a readable file.") from None


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of a binary stream as text; ``name`` stands in the error for a byte that is not UTF-8."""
    for number, line in enumerate(stream, 1):
        if number == 1 and line.startswith(_GZIP):
            raise DataError(f"{name} holds gzip data; unpack it first (gzip -dc), or give the .gz file by its name.")
        if number == 1 and line.startswith(_BOM):
            line = line[len(_BOM) :]
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: byte {line[error.start]:#04x} at column {error.start + 1} is not UTF-8; "
                "convert the file to UTF-8."
            ) from None


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a plain or gzip text file."""
    with open_binary(path) as stream:
        yield from decode_lines(stream, str(path))


def read_pairs(corpus: TextCorpus | TableCorpus | HubCorpus, folder: str | Path = ".") -> Iterator[Pair]:
    """The sentence pairs of a corpus in order; relative paths start at ``folder``. Raises :class:`DataError`."""
    folder = Path(folder)
    if isinstance(corpus, TextCorpus):
        return _aligned([folder / name for name in corpus.src], [folder / name for name in corpus.tgt])
    if isinstance(corpus, HubCorpus):
        return _hub(corpus)
    return _tables([folder / name for name in corpus.path], corpus)


def _aligned(src: list[Path], tgt: list[Path]) -> Iterator[Pair]:
    """Line k of the source files together with line k of the target files."""
    counts = {"src": 0, "tgt": 0}

    def lines(side: str, paths: list[Path]) -> Iterator[str]:
        for path in paths:
            for line in read_lines(path):
                counts[side] += 1
                yield line

    sides = lines("src", src), lines("tgt", tgt)
    for left, right in zip_longest(*sides):
        if left is None or right is None:
            for side in sides:
                for _ in side:
                    pass
            names = [" + ".join(str(path) for path in paths) for paths in (src, tgt)]
            raise DataError(
                f"{names[0]} has {counts['src']:,} lines and {names[1]} has {counts['tgt']:,}; "
                "line-aligned files need the same number."
            )
        yield left, right


def _tables(paths: list[Path], corpus: TableCorpus) -> Iterator[Pair]:
    for path in paths:
        if path.is_dir():
            yield from _saved_dataset(path, corpus)
            continue
        kind = next((part for part in reversed(path.suffixes) if part.lower() != ".gz"), "")
        reader = {".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}.get(kind.lower())
        if reader is None:
            if not os.path.lexists(path):
                raise DataError(f"cannot read {path}: there is no such file or folder; give one that exists.")
            raise DataError(
                f'{path}: the ending "{kind}" is not one of .tsv .csv .jsonl .parquet; rename the file, '
                "or give line-aligned files as src and tgt."
            )
        yield from reader(path, corpus)


def _columns(path: Path, names: list[str] | None, width: int, corpus: TableCorpus) -> tuple[int, int]:
    """The indices of the two fields, looked up in the header ``names`` where they are names."""

    def index(field: Field) -> int:
        if isinstance(field, str):
            if names is None:
                raise DataError(f'{path} has no header, so the field "{field}" cannot be found; give its index from 0.')
            if field not in names:
                raise DataError(f'{path} has no column "{field}"{nearest(field, names)}; it has {", ".join(names)}.')
            return names.index(field)
        if field >= width:
            raise DataError(f"{path} has {width} columns, so there is no column {field} (counted from 0).")
        return field

    return index(corpus.src_field), index(corpus.tgt_field)


def _rows(rows: Iterator[tuple[int, list[str]]], path: Path, corpus: TableCorpus) -> Iterator[Pair]:
    """Pairs from numbered rows of text fields, the header read where there is one."""
    header = corpus.header
    if header is None:
        header = isinstance(corpus.src_field, str) or isinstance(corpus.tgt_field, str)
    first = next(rows, None)
    if first is None:
        return
    src, tgt = _columns(path, first[1] if header else None, len(first[1]), corpus)
    if not header:
        yield first[1][src], first[1][tgt]
    needed = max(src, tgt) + 1
    for number, row in rows:
        if len(row) < needed:
            raise DataError(f"{path}, line {number}: {len(row)} columns where {needed} are needed; mend the line.")
        yield row[src], row[tgt]


def _tsv(path: Path, corpus: TableCorpus) -> Iterator[Pair]:
    """Tab-separated fields without any quoting."""
    rows = ((number, line.split("\t")) for number, line in enumerate(read_lines(path), 1))
    yield from _rows(rows, path, corpus)


def _csv(path: Path, corpus: TableCorpus) -> Iterator[Pair]:
    """RFC 4180: comma-separated, quoted fields may hold commas, doubled quotes and line breaks."""
    csv.field_size_limit(_LONGEST_FIELD)
    with open_binary(path) as stream:

        def lines() -> Iterator[str]:
            for line in decode_lines(stream, str(path)):
                yield line.replace("\r", _RETURN) + "\n"

        reader = csv.reader(lines(), strict=True)

        def rows() -> Iterator[tuple[int, list[str]]]:
            while True:
                # A row may have many lines, and a quote that is not closed takes all that follow.
                begin = reader.line_num + 1
                try:
                    row = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    raise DataError(
                        f"{path}, line {begin}: the row that begins there is not valid CSV ({error}); mend its quotes."
                    ) from None
                if row:
                    yield begin, [text.replace(_RETURN, "\r") for text in row]

        yield from _rows(rows(), path, corpus)


def _jsonl(path: Path, corpus: TableCorpus) -> Iterator[Pair]:
    """One JSON object (or array) a line; dots in a field's name go into nested objects."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not valid JSON ({error}); mend the line.") from None
        yield _field(row, corpus.src_field, where), _field(row, corpus.tgt_field, where)


def _field(row: Any, field: Field, where: str) -> str:
    """A text field of a row, by index or by name with dots."""
    value = row
    if isinstance(field, int):
        items = list(row.values()) if isinstance(row, dict) else row
        if not isinstance(items, list) or field >= len(items):
            raise DataError(f"{where}: there is no field {field} (counted from 0).")
        value = items[field]
    elif isinstance(row, dict) and field in row:
        value = row[field]
    else:
        for part in field.split("."):
            if not isinstance(value, dict) or part not in value:
                known = list(value) if isinstance(value, dict) else []
                raise DataError(f'{where}: there is no field "{field}"{nearest(part, known)}.')
            value = value[part]
    if not isinstance(value, str):
        raise DataError(f'{where}: the field "{field}" holds {_kind(value)}, not text; give a field with sentences.')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f'{where}: the field "{field}" holds half of a surrogate pair; mend the text.') from None
    return value


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _parquet(path: Path, corpus: TableCorpus) -> Iterator[Pair]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if len(set(names)) < len(names):
                raise DataError(f"{path} has two columns of the same name, among {', '.join(names)}; rename one.")
            before = 0
            for batch in file.iter_batches(batch_size=1024):
                for number, row in enumerate(_batch_rows(batch, path, before), before + 1):
                    where = f"{path}, row {number}"
                    yield _field(row, corpus.src_field, where), _field(row, corpus.tgt_field, where)
                before += batch.num_rows
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; give a file.") from None
    except OSError as error:
        # pyarrow's own strerror is a sentence, and without a number the file itself is at fault.
        reason = os.strerror(error.errno) if error.errno else "damaged file"
        raise DataError(f"cannot read {path}: {reason}; give a readable Parquet file.") from None
    except pa.ArrowException as error:
        raise DataError(f"{path}: not a readable Parquet file ({_reason(error)}); write it again.") from None


def _batch_rows(batch: Any, path: Path, before: int) -> list[dict[str, Any]]:
    """The rows of a batch of a Parquet file, of which ``before`` come before it."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
        return rows
    except UnicodeDecodeError:
        for index in range(batch.num_rows):
            try:
                batch.slice(index, 1).to_pylist()
            except UnicodeDecodeError:
                raise DataError(
                    f"{path}, row {before + index + 1}: text that is not UTF-8; write the file again."
                ) from None
        raise


def _saved_dataset(path: Path, corpus: TableCorpus) -> Iterator[Pair]:
    """A folder written by ``datasets``' ``save_to_disk``."""
    import datasets

    try:
        loaded = datasets.load_from_disk(str(path))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not a folder saved by datasets ({_reason(error)}); save it again.") from None
    if isinstance(loaded, datasets.DatasetDict):
        splits = list(loaded)
        name = corpus.split or "train"
        if name not in loaded:
            raise DataError(f'{path} has no split "{name}"{nearest(name, splits)}; it has {", ".join(splits)}.')
        loaded = loaded[name]
    elif corpus.split not in (None, str(loaded.split)):
        raise DataError(f'{path} is a single data set and has no split "{corpus.split}"; leave split out.')
    yield from _dataset_rows(loaded, str(path), corpus.src_field, corpus.tgt_field)


@contextlib.contextmanager
def hub_errors(corpus: HubCorpus) -> Iterator[None]:
    """A block that loads or reads a data set by name; what goes wrong there is a :class:`DataError`."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # the Hub's clients and each format have errors of their own, without a common parent
        raise DataError(
            f'the data set "{corpus.hub}" cannot be loaded ({_reason(error)}); check name, split and network.'
        ) from None


def load_hub(corpus: HubCorpus) -> Any:
    """A data set by name as an ``IterableDataset``: nothing is held in memory. Raises :class:`DataError`."""
    import datasets

    with hub_errors(corpus):
        return datasets.load_dataset(
            corpus.hub, corpus.name, split=corpus.split, revision=corpus.revision, streaming=True
        )


def _hub(corpus: HubCorpus) -> Iterator[Pair]:
    # Streaming reads on while the rows are used, so the network can fail at any of them.
    with hub_errors(corpus):
        yield from _dataset_rows(load_hub(corpus), corpus.hub, corpus.src_field, corpus.tgt_field)


def _reason(error: Exception) -> str:
    """The first line of a library's message, or what kind of error it is."""
    return next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__


def row_pair(row: Any, src: Field, tgt: Field, where: str) -> Pair:
    """The two texts of a row; ``where`` it stands goes into errors."""
    return _field(row, src, where), _field(row, tgt, where)


def _dataset_rows(rows: Iterable[Any], name: str, src: Field, tgt: Field) -> Iterator[Pair]:
    for number, row in enumerate(rows, 1):
        yield row_pair(row, src, tgt, f"{name}, row {number}")
