"""Forms whose fields are parts of a body, multipart/form-data as RFC 7578 has it, read in one pass.

A form comes from anybody, before a key is seen: whatever it holds, the time that it takes grows with its length alone.
Every failure is a :class:`ValueError` that says in a few words what is wrong.
"""

from __future__ import annotations

import re

# Bytes of the head of a part; characters of a boundary (RFC 2046, 5.1.1).
HEAD_BYTES, BOUNDARY = 8192, 70
_END = re.compile(rb"\r?\n")
_BLANK = re.compile(rb"(?:\A|\r?\n)\r?\n")
_KIND = re.compile(r"[ \t]*+([^\s;,\"=]++)[ \t]*+")
# One parameter, its value bare or quoted; a semicolon may stand at the end.
_PARAMETER = re.compile(
    r";[ \t]*+(?:([^\s;,\"=()<>@]++)[ \t]*+=[ \t]*+(?:\"((?:[^\"\\]|\\.)*+)\"|([^\s;,\"\\]++))[ \t]*+)?+"
)
_ESCAPE = re.compile(r"\\(.)")
# How browsers write these three inside of quotation marks (HTML, 4.10.21.8).
_PERCENT = (("%22", '"'), ("%0D", "\r"), ("%0A", "\n"))
# Ways to send a part that leave its bytes alone; RFC 7578, 4.7 is against all others.
_PLAIN = ("7bit", "8bit", "binary")
_UNICODE = ("utf-8", "utf8", "us-ascii")


def fields(body: bytes, content_type: str, most: int) -> list[tuple[str, str]]:
    """The names and contents of at most ``most`` parts, in their order; a file is a field like any other."""
    boundary = parameters(content_type)[1].get("boundary", "")
    if not 0 < len(boundary) <= BOUNDARY:
        raise ValueError(f"its header Content-Type names no boundary of up to {BOUNDARY} characters")
    return [_field(part) for part in _parts(body, boundary.encode("latin-1"), most)]


def parameters(value: str) -> tuple[str, dict[str, str]]:
    """What a header says before its first semicolon, and what it says behind it by name, both names in lower case."""
    kind = _KIND.match(value)
    if kind is None:
        raise ValueError("a header without a value")
    at, found = kind.end(), dict[str, str]()
    while at < len(value):
        one = _PARAMETER.match(value, at)
        if one is None:
            raise ValueError("a header whose parameters cannot be told apart")
        at, name = one.end(), (one[1] or "").lower()
        if name in found:
            raise ValueError("a header that says the same twice")
        if name:
            found[name] = one[3] if one[2] is None else _ESCAPE.sub(r"\1", one[2])
    return kind[1].lower(), found


def _parts(body: bytes, boundary: bytes, most: int) -> list[bytes]:
    """What stands between the boundaries, each of which has a line for itself."""
    line = re.compile(rb"(?:\A|\r?\n)--" + re.escape(boundary) + rb"(--)?+[ \t]*+(?=\r?\n|\Z)")
    found: list[bytes] = []
    begin: int | None = None
    for mark in line.finditer(body):
        if begin is not None:
            found.append(body[begin : mark.start()])
        if mark[1]:
            return found
        if len(found) == most:
            raise ValueError(f"it has more than {most:,} parts")
        begin = mark.end()
    raise ValueError("no boundary between its parts" if begin is None else "its end is missing: no closing boundary")


def _field(part: bytes) -> tuple[str, str]:
    """The name and content of a part; it begins with the end of the boundary's line."""
    start = _END.match(part)
    blank = _BLANK.search(part, start.end(), start.end() + HEAD_BYTES) if start else None
    if start is None or blank is None:
        if len(part) > HEAD_BYTES:
            raise ValueError(f"the head of a part is longer than {HEAD_BYTES:,} bytes")
        raise ValueError("a part whose head has no end")
    headers = _headers(part[start.end() : blank.start()].decode())
    kind, said = parameters(headers.get("content-disposition", "form-data"))
    if kind != "form-data" or "name" not in said:
        raise ValueError("a part without a name")
    if headers.get("content-transfer-encoding", _PLAIN[0]).lower() not in _PLAIN:
        raise ValueError("a part that is encoded")
    own, about = parameters(headers.get("content-type", "text/plain"))
    if own.startswith("multipart/"):
        raise ValueError("a part that has parts")
    if about.get("charset", _UNICODE[0]).lower() not in _UNICODE:
        raise ValueError("a part that is not UTF-8")
    name = said["name"]
    for written, meant in _PERCENT:
        name = name.replace(written, meant)
    return name, part[blank.end() :].decode()


def _headers(head: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in head.replace("\r\n", "\n").split("\n") if head else ():
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():  # a line that goes on with the one before it, among others
            raise ValueError("a line of a part's head that is no header")
        if name.lower() in found:
            raise ValueError("a part that has a header twice")
        found[name.lower()] = value.strip()
    return found
