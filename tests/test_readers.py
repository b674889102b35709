"""Readers of bitext: every format, strict UTF-8, and errors that say where."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import HubCorpus, TableCorpus, TextCorpus
from dragoman.errors import DataError
from dragoman.text.readers import decode_lines, read_lines, read_pairs

WriteLines = Callable[[str, Sequence[str]], Path]
# Words that other readers take for missing values, quotes, and everything that only looks like the end of a line.
PAIRS = [
    ("NA", "null"),
    ("None", "nan"),
    ("", "empty"),
    ('"quoted', "it''s \"so\""),
    ("a\u2028b\u2029c", "a\x85b"),
    ("form\x0cfeed\x0b", "unit\x1c\x1d\x1e"),
    ("lone\rreturn", "nul\0inside"),
    ("  kept  ", "\u00a0kept\u3000"),
    ("true", "1.50"),
]
# Text of a line: any character but the line feed; a carriage return at the end would belong to the line's end.
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")).filter(
    lambda text: not text.endswith("\r")
)


def pairs_of(corpus: TextCorpus | TableCorpus | HubCorpus, folder: Path) -> list[tuple[str, str]]:
    return list(read_pairs(corpus, folder))


def refusal(corpus: TextCorpus | TableCorpus | HubCorpus, folder: Path) -> str:
    """The error, which has to be one line, without the test's own folder."""
    with pytest.raises(DataError) as caught:
        pairs_of(corpus, folder)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


@pytest.fixture
def aligned(write_lines: WriteLines) -> TextCorpus:
    write_lines("a", [src for src, _ in PAIRS])
    write_lines("b", [tgt for _, tgt in PAIRS])
    return TextCorpus(src="a", tgt="b")


def test_line_aligned(aligned: TextCorpus, tmp_path: Path) -> None:
    assert pairs_of(aligned, tmp_path) == PAIRS


def test_gzip_is_known_by_its_content(aligned: TextCorpus, tmp_path: Path) -> None:
    for name in ("a", "b"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "a").rename(tmp_path / "a.gz")
    assert pairs_of(TextCorpus(src="a.gz", tgt="b"), tmp_path) == PAIRS


def test_several_files_a_side(aligned: TextCorpus, write_lines: WriteLines, tmp_path: Path) -> None:
    """The files of a side make one text; only the whole has to fit the other side."""
    write_lines("a2", ["x"])
    write_lines("b1", [tgt for _, tgt in PAIRS[:4]])
    write_lines("b2", [*(tgt for _, tgt in PAIRS[4:]), "y"])
    assert pairs_of(TextCorpus(src=["a", "a2"], tgt=["b1", "b2"]), tmp_path) == [*PAIRS, ("x", "y")]


def test_absolute_paths_stay(aligned: TextCorpus, tmp_path: Path) -> None:
    corpus = TextCorpus(src=str(tmp_path / "a"), tgt=str(tmp_path / "b"))
    assert pairs_of(corpus, tmp_path / "elsewhere") == PAIRS


def test_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("\ufeffä\r\nb\r\r\n\r\n\ufeffc\r".encode())
    assert list(read_lines(tmp_path / "x")) == ["ä", "b\r", "", "\ufeffc"]


def test_no_lines_and_no_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    assert list(read_lines(tmp_path / "x")) == []
    (tmp_path / "x").write_bytes(b"a\nb")
    assert list(read_lines(tmp_path / "x")) == ["a", "b"]


@given(st.lists(LINE), st.booleans(), st.booleans())
def test_any_text_comes_back(lines: list[str], crlf: bool, packed: bool) -> None:
    data = "".join(line + ("\r\n" if crlf else "\n") for line in lines).encode()
    lines = [line.removeprefix("\ufeff") if index == 0 else line for index, line in enumerate(lines)]
    stream = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data))) if packed else io.BytesIO(data)
    assert list(decode_lines(stream, "x")) == lines


@given(st.binary(), st.binary())
def test_bytes_are_read_whole_or_refused(before: bytes, after: bytes) -> None:
    data = before + after
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        with pytest.raises(DataError, match=f"^x, line {number}: byte {data[error.start]:#04x} at column"):
            list(decode_lines(io.BytesIO(data), "x"))
    else:
        assert sum(1 for _ in decode_lines(io.BytesIO(data), "x")) == len(data.split(b"\n")) - (data[-1:] in b"\n")


@pytest.mark.parametrize(
    "data", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", "ü".encode("latin-1"), "ü".encode("utf-16")]
)
def test_a_bad_byte(write_lines: WriteLines, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(b"fine\n\xc3\xbc" + data + b"\n")
    write_lines("b", ["x", "y"])
    message = refusal(TextCorpus(src="a", tgt="b"), tmp_path)
    assert message == f"a, line 2: byte {data[0]:#04x} at column 3 is not UTF-8; convert the file to UTF-8."


@pytest.mark.parametrize("shorter", ["a", "b"])
def test_unequal_counts(write_lines: WriteLines, tmp_path: Path, shorter: str) -> None:
    for name in ("a1", "a2", "b"):
        count = {"a1": 2, "a2": 1300, "b": 1302}[name] - (5 if name == {"a": "a2", "b": "b"}[shorter] else 0)
        write_lines(name, ["x"] * count)
    message = refusal(TextCorpus(src=["a1", "a2"], tgt="b"), tmp_path)
    counts = ("1,297", "1,302") if shorter == "a" else ("1,302", "1,297")
    assert message == f"a1 + a2 has {counts[0]} lines and b has {counts[1]}; line-aligned files need the same number."


def test_paths_that_cannot_be_read(write_lines: WriteLines, tmp_path: Path) -> None:
    write_lines("b", ["x"])
    (tmp_path / "folder").mkdir()
    assert "cannot read nope: No such file" in refusal(TextCorpus(src="nope", tgt="b"), tmp_path)
    assert refusal(TextCorpus(src="folder", tgt="b"), tmp_path) == "folder is a folder; give a file."
    for kind in ("tsv", "csv", "jsonl", "parquet"):
        assert f"cannot read nope.{kind}: No such file" in refusal(TableCorpus(path=f"nope.{kind}"), tmp_path)


def test_a_path_that_no_file_can_have(tmp_path: Path) -> None:
    assert "no path holds a NUL" in refusal(TextCorpus(src="a\0", tgt="b"), tmp_path)


def test_a_pipe_is_read() -> None:
    for data in (b"a\nb\n", b"", gzip.compress(b"a\nb\n")):
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        assert list(read_lines(f"/dev/fd/{reading}")) == ["a", "b"][: 2 * bool(data)]
        os.close(reading)


@pytest.mark.parametrize("cut", [12, 40, -9, -4])
def test_damaged_gzip(write_lines: WriteLines, tmp_path: Path, cut: int) -> None:
    packed = gzip.compress("".join(f"line {n * n}\n" for n in range(300)).encode())
    write_lines("b", ["x"] * 300)
    for data in (packed[:cut], packed[:cut] + b"\xff\xff\xff" + packed[cut:][3:]):
        (tmp_path / "a.gz").write_bytes(data)
        assert refusal(TextCorpus(src="a.gz", tgt="b"), tmp_path).startswith("a.gz: the gzip data is damaged")


# Tables


def write_tsv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\r\n").writerows(rows)


def write_jsonl(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8", newline="\n")


ROWS = [("id", "en", "de"), *((str(number), *pair) for number, pair in enumerate(PAIRS))]


@pytest.mark.parametrize("header", [True, None])
@pytest.mark.parametrize(("kind", "write"), [("tsv", write_tsv), ("csv", write_csv)])
def test_columns_by_name(tmp_path: Path, kind: str, write: Any, header: bool | None) -> None:
    write(tmp_path / f"x.{kind}", ROWS)
    corpus = TableCorpus(path=f"x.{kind}", src_field="de", tgt_field="en", header=header)
    assert pairs_of(corpus, tmp_path) == [(tgt, src) for src, tgt in PAIRS]


@pytest.mark.parametrize(("kind", "write"), [("tsv", write_tsv), ("csv", write_csv), ("jsonl", write_jsonl)])
def test_columns_by_index(tmp_path: Path, kind: str, write: Any) -> None:
    write(tmp_path / f"x.{kind}", PAIRS)
    assert pairs_of(TableCorpus(path=f"x.{kind}"), tmp_path) == PAIRS
    write(tmp_path / f"y.{kind}", ROWS[1:])
    (tmp_path / f"y.{kind}.gz").write_bytes(gzip.compress((tmp_path / f"y.{kind}").read_bytes()))
    corpus = TableCorpus(path=f"y.{kind}.gz", src_field=2, tgt_field=1)
    assert pairs_of(corpus, tmp_path) == [(tgt, src) for src, tgt in PAIRS]


@pytest.mark.parametrize("write", [write_tsv, write_csv])
def test_a_header_that_is_not_used(tmp_path: Path, write: Any) -> None:
    kind = write.__name__.removeprefix("write_")
    write(tmp_path / f"x.{kind}", ROWS)
    corpus = TableCorpus(path=f"x.{kind}", src_field=1, tgt_field=2)
    assert pairs_of(corpus, tmp_path)[0] == ("en", "de")
    assert pairs_of(corpus.changed(header=True), tmp_path) == PAIRS


def test_several_tables_of_different_kinds(tmp_path: Path) -> None:
    write_tsv(tmp_path / "x.tsv", [("en", "de"), ("a", "b")])
    write_csv(tmp_path / "y.csv", [("de", "en"), ("d", "c")])
    corpus = TableCorpus(path=["x.tsv", "y.csv"], src_field="en", tgt_field="de")
    assert pairs_of(corpus, tmp_path) == [("a", "b"), ("c", "d")]


def test_the_ending_may_be_in_capitals(tmp_path: Path) -> None:
    write_tsv(tmp_path / "X.TSV", PAIRS)
    assert pairs_of(TableCorpus(path="X.TSV"), tmp_path) == PAIRS


def test_tsv_has_no_quoting(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('"a\tb"\n"c, d"\t\'e\'\n\\t\t""\n', "utf-8")
    assert pairs_of(TableCorpus(path="x.tsv"), tmp_path) == [('"a', 'b"'), ('"c, d"', "'e'"), ("\\t", '""')]


def test_csv_quoting(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b'\xef\xbb\xbf"a, b","say ""so"""\r\n\r\n"two\n\nlines",x\r\n')
    assert pairs_of(TableCorpus(path="x.csv"), tmp_path) == [("a, b", 'say "so"'), ("two\n\nlines", "x")]
    (tmp_path / "x.csv").write_bytes(b"a\rb,\rc\r\r\nd,e\r\n")
    assert pairs_of(TableCorpus(path="x.csv"), tmp_path) == [("a\rb", "\rc\r"), ("d", "e")]


@given(st.lists(st.tuples(LINE, LINE), min_size=1))
def test_any_text_comes_back_from_tables(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    write_jsonl(folder / "x.jsonl", pairs)
    write_csv(folder / "x.csv", [("\ufeffen", "de"), *pairs])
    assert pairs_of(TableCorpus(path="x.jsonl"), folder) == pairs
    assert pairs_of(TableCorpus(path="x.csv", header=True), folder) == pairs


def test_a_very_long_field(tmp_path: Path) -> None:
    row = ("a" * 300_000, "b")
    for kind, write in (("tsv", write_tsv), ("csv", write_csv), ("jsonl", write_jsonl)):
        write(tmp_path / f"x.{kind}", [row])
        assert pairs_of(TableCorpus(path=f"x.{kind}"), tmp_path) == [row]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("en\tde\na\tb\nc\n", "x.tsv, line 3: 1 columns where 2 are needed; mend the line."),
        ("en\tdeu\n", 'x.tsv has no column "de" (did you mean "deu"?); it has en, deu.'),
        ("en\tde\n\n", "x.tsv, line 2: 1 columns where 2 are needed; mend the line."),
    ],
)
def test_bad_tsv(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.tsv").write_text(content, "utf-8")
    assert refusal(TableCorpus(path="x.tsv", src_field="en", tgt_field="de"), tmp_path) == message


def test_bad_columns(tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", [("a", "b")])
    assert "x.csv has 2 columns, so there is no column 2" in refusal(TableCorpus(path="x.csv", tgt_field=2), tmp_path)
    named = TableCorpus(path="x.csv", src_field="en", header=False)
    assert 'x.csv has no header, so the field "en" cannot be found' in refusal(named, tmp_path)


def test_bad_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b'a,b\n"c"d,e\n')
    assert refusal(TableCorpus(path="x.csv"), tmp_path).startswith("x.csv, line 2: the row that begins there is not")
    (tmp_path / "x.csv").write_bytes(b'a,b\n"c,e\nf,g\n' + b"h,i\n" * 99)
    assert refusal(TableCorpus(path="x.csv"), tmp_path) == (
        "x.csv, line 2: the row that begins there is not valid CSV (unexpected end of data); mend its quotes."
    )
    (tmp_path / "x.csv").write_bytes(b'"a\nb\nc",d\n"e\nf"\n')
    assert refusal(TableCorpus(path="x.csv"), tmp_path).startswith("x.csv, line 4: 1 columns where 2 are needed")
    (tmp_path / "x.csv").write_bytes(b"a,b\nc,\xff\n")
    assert refusal(TableCorpus(path="x.csv"), tmp_path).startswith("x.csv, line 2: byte 0xff at column 3")


def test_an_unknown_kind_of_table(write_lines: WriteLines, tmp_path: Path) -> None:
    write_lines("x.txt.gz", ["a"])
    assert 'the ending ".txt" is not one of .tsv .csv .jsonl .parquet' in refusal(
        TableCorpus(path="x.txt.gz"), tmp_path
    )


def test_jsonl_fields(tmp_path: Path) -> None:
    rows = [
        {"translation": {"en": src, "de": tgt, "n": 1}, "a.b": src, "id": index}
        for index, (src, tgt) in enumerate(PAIRS)
    ]
    (tmp_path / "x.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows), "utf-8")
    nested = TableCorpus(path="x.jsonl", src_field="translation.en", tgt_field="translation.de")
    assert pairs_of(nested, tmp_path) == PAIRS
    dotted = nested.changed(src_field="a.b")
    assert pairs_of(dotted, tmp_path) == PAIRS


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "x.jsonl, line 2: not valid JSON ("),
        ("9" * 5000, "x.jsonl, line 2: not valid JSON ("),
        ("[" * 100_000, "x.jsonl, line 2: not valid JSON ("),
        ('{"en": "a"}', 'x.jsonl, line 2: there is no field "de"'),
        ('{"en": "a", "dee": "b"}', 'x.jsonl, line 2: there is no field "de" (did you mean "dee"?).'),
        ('["a", "b"]', 'x.jsonl, line 2: there is no field "en".'),
        ("null", 'x.jsonl, line 2: there is no field "en".'),
        ('{"en": null, "de": "b"}', 'x.jsonl, line 2: the field "en" holds nothing, not text;'),
        ('{"en": "a", "de": 3}', 'x.jsonl, line 2: the field "de" holds a int, not text;'),
        ('{"en": "a", "de": "\\ud800"}', 'x.jsonl, line 2: the field "de" holds half of a surrogate pair'),
    ],
)
def test_bad_jsonl(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text('{"en": "a", "de": "b"}\n' + line + "\n", "utf-8")
    assert refusal(TableCorpus(path="x.jsonl", src_field="en", tgt_field="de"), tmp_path).startswith(message)


def test_jsonl_index_out_of_range(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", [("a", "b"), ("c",)])
    assert refusal(TableCorpus(path="x.jsonl"), tmp_path).startswith("x.jsonl, line 2: there is no field 1")


def test_parquet(tmp_path: Path) -> None:
    many = PAIRS * 300
    table = pa.table(
        {
            "id": range(len(many)),
            "en": [src for src, _ in many],
            "translation": [{"de": tgt, "x": None} for _, tgt in many],
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    corpus = TableCorpus(path="x.parquet", src_field="en", tgt_field="translation.de")
    assert pairs_of(corpus, tmp_path) == many
    assert refusal(corpus.changed(src_field="eng"), tmp_path) == (
        'x.parquet, row 1: there is no field "eng" (did you mean "en"?).'
    )
    assert refusal(corpus.changed(src_field=0), tmp_path).startswith('x.parquet, row 1: the field "0" holds a int')


def test_parquet_with_a_missing_value(tmp_path: Path) -> None:
    pq.write_table(pa.table({"en": ["a", None], "de": ["b", "c"]}), tmp_path / "x.parquet")
    message = refusal(TableCorpus(path="x.parquet"), tmp_path)
    assert message == 'x.parquet, row 2: the field "0" holds nothing, not text; give a field with sentences.'


def test_parquet_with_a_bad_byte(tmp_path: Path) -> None:
    count = 1500
    texts = pa.array(["aa"] * (count - 1) + ["bb"])
    content = bytearray(texts.buffers()[2].to_pybytes()[: 2 * count])
    content[-1] = 0xFF
    bad = pa.StringArray.from_buffers(count, texts.buffers()[1], pa.py_buffer(bytes(content)))
    pq.write_table(pa.table({"en": texts, "de": bad}), tmp_path / "x.parquet")
    message = refusal(TableCorpus(path="x.parquet"), tmp_path)
    assert message == "x.parquet, row 1500: text that is not UTF-8; write the file again."


def test_parquet_with_a_name_twice(tmp_path: Path) -> None:
    columns = [pa.array(["a"]), pa.array(["b"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "x"]), tmp_path / "x.parquet")
    message = refusal(TableCorpus(path="x.parquet"), tmp_path)
    assert message == "x.parquet has two columns of the same name, among x, x; rename one."


def test_damaged_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"en": ["a"] * 99, "de": ["b"] * 99}), tmp_path / "x.parquet")
    whole = (tmp_path / "x.parquet").read_bytes()
    for data in (b"", b"PAR1", whole[:-10], b"\0" * 30 + whole[30:]):
        (tmp_path / "x.parquet").write_bytes(data)
        assert refusal(TableCorpus(path="x.parquet"), tmp_path).startswith(("x.parquet: ", "cannot read x.parquet: "))


# Data sets of the library of that name


@pytest.fixture
def dataset() -> datasets.Dataset:
    return datasets.Dataset.from_list([{"translation": {"en": src, "de": tgt}} for src, tgt in PAIRS])


NESTED = {"src_field": "translation.en", "tgt_field": "translation.de"}


def test_a_saved_dataset(dataset: datasets.Dataset, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "one")
    assert pairs_of(TableCorpus(path="one", **NESTED), tmp_path) == PAIRS
    datasets.DatasetDict(train=dataset.select([0]), test=dataset).save_to_disk(tmp_path / "two")
    corpus = TableCorpus(path="two", **NESTED)
    assert pairs_of(corpus, tmp_path) == PAIRS[:1]
    assert pairs_of(corpus.changed(split="test"), tmp_path) == PAIRS
    assert refusal(corpus.changed(split="tset"), tmp_path) == (
        'two has no split "tset" (did you mean "test"?); it has train, test.'
    )
    assert refusal(corpus.changed(src_field="translation.fr"), tmp_path).startswith("two, row 1: there is no field")


def test_a_split_of_a_folder_without_splits(dataset: datasets.Dataset, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "one")
    message = refusal(TableCorpus(path="one", split="test", **NESTED), tmp_path)
    assert message == 'one is a single data set and has no split "test"; leave split out.'


def test_a_folder_that_is_no_dataset(dataset: datasets.Dataset, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    assert "x is not a folder saved by datasets (" in refusal(TableCorpus(path="x"), tmp_path)
    dataset.save_to_disk(tmp_path / "y")
    (data,) = (tmp_path / "y").glob("*.arrow")
    for path, content in ((data, b""), (data, data.read_bytes()[:100]), (tmp_path / "y" / "state.json", b"[]")):
        path.write_bytes(content)
        assert "y is not a folder saved by datasets (" in refusal(TableCorpus(path="y"), tmp_path)
    assert refusal(TableCorpus(path="z"), tmp_path) == (
        "cannot read z: there is no such file or folder; give one that exists."
    )


def test_a_hub_name(dataset: datasets.Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Any] = []

    def load(*args: Any, **options: Any) -> Any:
        calls.append((args, options))
        return dataset.to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load)
    corpus = HubCorpus(hub="some/set", name="de-en", split="validation", revision="v1", **NESTED)
    assert pairs_of(corpus, tmp_path) == PAIRS
    assert calls == [(("some/set", "de-en"), {"split": "validation", "revision": "v1", "streaming": True})]
    assert refusal(corpus.changed(tgt_field="translation.dde"), tmp_path) == (
        'some/set, row 1: there is no field "translation.dde" (did you mean "de"?).'
    )


@pytest.mark.parametrize(
    "error", [FileNotFoundError("gone\nfor good"), ValueError(), ConnectionError("no network"), Exception("odd")]
)
def test_a_hub_name_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception) -> None:
    corpus = HubCorpus(hub="some/set", **NESTED)

    def fail(*args: Any, **options: Any) -> Any:
        raise error

    def fail_later(*args: Any, **options: Any) -> Any:
        yield {"translation": {"en": "a", "de": "b"}}
        raise error

    for load in (fail, fail_later):
        monkeypatch.setattr(datasets, "load_dataset", load)
        assert refusal(corpus, tmp_path).startswith('the data set "some/set" cannot be loaded (')
