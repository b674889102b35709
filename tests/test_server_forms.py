"""Multipart forms, well written and not; keys before bodies; half a body when the server stops."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from bundles import make_bundle
from dragoman.bundle import save_bundle
from dragoman.server import asked, body, form, libre
from dragoman.server.detect import detect
from dragoman.server.gate import endpoints_of
from dragoman.server.refusals import BadRequestError
from serving import Server, fine, refused, serving

KIND = "multipart/form-data; boundary=x"
KEY = "a-key"
PAIR = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_bundle(make_bundle(), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    with serving(model, "--api-key", KEY) as running:
        yield running
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


def part(head: bytes, content: bytes = b"A dog", end: bytes = b"\r\n") -> bytes:
    return end.join((b"--x", head, b"", content, b""))


def named(name: bytes, content: bytes = b"A dog", end: bytes = b"\r\n") -> bytes:
    return part(b'Content-Disposition: form-data; name="%s"' % name, content, end)


REST = named(b"source", b"en") + named(b"target", b"de")


def read(content: bytes, kind: str = KIND) -> list[tuple[str, str]]:
    return form.fields(content, kind, 1100)


NAMES = st.text(st.characters(exclude_characters="%", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(NAMES, st.text()), max_size=5), st.sampled_from([b"\r\n", b"\n"]))
def test_what_is_written_is_read(fields: list[tuple[str, str]], end: bytes) -> None:
    """Names with the signs that browsers write otherwise, and backslashes as RFC 9110 writes them."""
    whole = b""
    if end == b"\n":  # behind which a content's last carriage return would belong to the line's end
        fields = [(name, value.rstrip("\r")) for name, value in fields]
    for name, value in fields:
        written = name.replace("\\", r"\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        whole += named(written.encode(), value.encode(), end)
    assert read(whole + b"--x--") == fields


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"content-disposition: FORM-DATA ; NAME = q", "q"),
        (b'Content-Disposition: form-data; name="q"; filename="a;b\\"c.txt"\r\nContent-Type: text/plain', "q"),
        (b"Content-Disposition: form-data; name=q; filename*=utf-8''q", "q"),
        (b'Content-Disposition: form-data; name="a\\"b%22c";', 'a"b"c'),
        ('Content-Disposition: form-data; name="Schlüssel"'.encode(), "Schlüssel"),
        (b"Content-Disposition:form-data;name=q\r\nContent-Type: text/plain; charset=UTF-8", "q"),
        (b"Content-Disposition: form-data; name=q\r\nContent-Transfer-Encoding: 8bit", "q"),
    ],
)
def test_heads_of_parts(head: bytes, name: str) -> None:
    assert read(part(head, b"\r\n--xy\r\nA dog\n") + b"--x--  \r\nbehind") == [(name, "\r\n--xy\r\nA dog\n")]


def test_boundaries() -> None:
    for boundary in ("----WebKitFormBoundaryAbc", "=_1.2?+", "a b"):
        content = named(b"q").replace(b"--x", b"--" + boundary.encode()) + b"--%s--" % boundary.encode()
        assert read(b"before\r\n" + content, f'Multipart/Form-Data; charset=utf-8; boundary="{boundary}"') == [
            ("q", "A dog")
        ]
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 71):
        with pytest.raises(ValueError, match=r"boundary|told apart"):
            read(named(b"q") + b"--x--", kind)


DISPOSED = b"Content-Disposition: form-data; name=q"
BAD = [
    (b"Content-Disposition: form-data; name*", "told apart"),
    (DISPOSED + b"; a*", "told apart"),
    (b"Content-Disposition: form-data; name=", "told apart"),
    (b'Content-Disposition: form-data; name="q', "told apart"),
    (b"Content-Disposition: form-data; name*=utf-8''q", "without a name"),
    (b"Content-Disposition: attachment; name=q", "without a name"),
    (b"Content-Disposition: ", "without a value"),
    (b"Content-Type: text/plain", "without a name"),
    (b"", "without a name"),
    (DISPOSED + b"; name=r", "the same twice"),
    (DISPOSED + b"\r\n" + DISPOSED, "a header twice"),
    (DISPOSED + b"\r\n goes on", "no header"),
    (DISPOSED + b"\r\nword", "no header"),
    (DISPOSED + b"\r\nContent-Type: text/plain; x*", "told apart"),
    (DISPOSED + b"\r\nContent-Type: multipart/mixed; boundary=y", "has parts"),
    (DISPOSED + b"\r\nContent-Type: text/plain; charset=utf-16", "not UTF-8"),
    (DISPOSED + b"\r\nContent-Transfer-Encoding: base64", "encoded"),
    (b"Content-Disposition: form-data" + b"; a=b" * 60_000, "longer than 8,192"),
    (b"Content-Disposition: form-data" + b"(" * 60_000, "longer than 8,192"),
    (b"Content-Disposition: form-data; name=" + b"=?utf-8?q?a?= " * 10_000, "longer than 8,192"),
]


@pytest.mark.parametrize(("head", "said"), BAD)
def test_what_is_no_part(server: Server, head: bytes, said: str) -> None:
    answer = server.client.post("/translate", content=part(head) + REST + b"--x--", headers={"Content-Type": KIND})
    sentence = refused(answer, 400)
    assert said in sentence
    assert sentence.endswith("; send its fields again.")


def nested(depth: int) -> bytes:
    return b"".join(b"--x\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n" % n for n in range(depth))


def test_a_form_takes_no_longer_than_its_length() -> None:
    """A fourth of a megabyte of whatever, in far less than the seconds that a parser of mail took."""
    forms = [part(head) + b"--x--" for head, _ in BAD]
    forms += [nested(1000) + b"\r\n--x--", b"--x\r\n" * 60_000 + b"--x--", b"\n" * 250_000, b"\r\n--x " * 40_000]
    forms += [
        b"--x\r\n" + b"a: b\r\n" * 40_000 + b"\r\n--x--",
        b"--x" + b" " * 250_000,
        b"--x--" + b"\t" * 250_000 + b"y",
    ]
    forms += [
        part(b'Content-Disposition: form-data; name="' + mark * 4000) + b"--x--" for mark in (b"\\", b"a=", b"; ")
    ]
    for content in forms:
        begun = time.process_time()
        with pytest.raises(BadRequestError):
            body.parse(content, KIND, asked.LibreTranslate, forms=True)
        assert time.process_time() - begun < 0.5, content[:60]


def test_whatever_a_form_is_it_is_read_or_refused() -> None:
    signs = [
        "form-data",
        ";",
        "name",
        "=",
        '"',
        "q",
        "*",
        "''",
        " ",
        "\t",
        "\\",
        "(",
        ",",
        ":",
        "=?",
        "ÿ",
        "\r\n",
        "\n",
    ]
    signs += ["--x", "--", "Content-Disposition: form-data; name=q", "Content-Type: ", "multipart/mixed; boundary=y"]
    random, seen = Random(3), set()
    for _ in range(5000):
        head = "".join(random.choices(signs, k=random.randint(1, 9)))
        try:
            read(part(head.encode()) + b"--x--")
            seen.add("read")
        except UnicodeError:
            raise
        except ValueError as error:
            seen.add(str(error))
    assert len(seen) > 6
    assert "read" in seen


def test_so_many_parts() -> None:
    assert len(form.fields(named(b"q") * 3 + b"--x--", KIND, 3)) == 3
    with pytest.raises(ValueError, match="more than 3 parts"):
        form.fields(named(b"q") * 4 + b"--x--", KIND, 3)


@pytest.mark.parametrize("number", ["+3_0", "1_0", " 3", "3 ", "+3", "3.0", "٣", "-1", "", "9" * 5000])
def test_a_number_in_a_form_is_digits(number: str) -> None:
    content = named(b"q") + REST + named(b"alternatives", number.encode()) + b"--x--"
    with pytest.raises(BadRequestError, match=r'"alternatives" is ".*": give a whole number'):
        body.parse(content, KIND, asked.LibreTranslate, forms=True)


def test_digits_in_a_form() -> None:
    content = named(b"q", b"3") + named(b"q", b"4") + REST + named(b"alternatives", b"03") + b"--x--"
    found = body.parse(content, KIND, asked.LibreTranslate, forms=True)
    assert (found.q, found.alternatives) == (["3", "4"], 3)
    with pytest.raises(BadRequestError, match='"alternatives" is 16: give at most 15'):
        body.parse(content.replace(b"03", b"16"), KIND, asked.LibreTranslate, forms=True)


# keys before bodies


def head(*lines: str, path: str = "/translate", length: int = 100) -> bytes:
    own = [f"POST {path} HTTP/1.1", "host: x", "content-type: application/json", f"content-length: {length}"]
    return "\r\n".join([*own, *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        (("x-api-key: no",), "/translate"),
        (("authorization: Bearer no",), "/v1/translate"),
        ((), "/translate?api_key=no"),
    ],
)
def test_a_wrong_key_is_refused_before_the_body(server: Server, lines: tuple[str, ...], path: str) -> None:
    with server.connect() as connection:
        begun = time.monotonic()
        connection.sendall(head(*lines, path=path))
        data = connection.recv(4096)
        assert time.monotonic() - begun < 2
        assert data.startswith(b"HTTP/1.1 403 ")
        assert b"connection: close" in data
        assert b"the API key is not valid" in data + connection.recv(4096)


def test_a_key_in_the_body_is_read(server: Server) -> None:
    content = {"q": "key", **PAIR, "api_key": KEY}
    assert fine(server.post("/translate", **content))["translatedText"]
    # Whether or not the request had arrived, the connection serves the next one.
    for key in ("no", ""):
        refused(server.post("/translate", **{**content, "api_key": key}), 403)
    answer = server.client.post("/translate", json=content, headers={"X-API-Key": "no"})
    assert "not valid" in refused(answer, 403)


@pytest.mark.parametrize("coding", ["gzip, chunked", "identity, chunked"])
def test_a_packed_transfer(server: Server, coding: str) -> None:
    lines = ["POST /translate HTTP/1.1", "host: x", "content-type: application/json", f"transfer-encoding: {coding}"]
    data = server.exchange("\r\n".join([*lines, f"x-api-key: {KEY}", "", "2\r\n{}\r\n0\r\n\r\n"]).encode())
    assert data.startswith(b"HTTP/1.1 415 ")
    assert f'the transfer encoding is \\"{coding}\\"; send the request as it is'.encode() in data


# the end


@pytest.mark.parametrize("sent", [b'{"q"', b""])
def test_half_a_body_does_not_hold_up_a_stop(model: Path, sent: bytes) -> None:
    with serving(model, "--grace", "1.5", "--timeout", "8") as server, server.connect() as connection:
        connection.sendall(head() + sent)
        time.sleep(0.3)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        data = b"".join(iter(lambda: connection.recv(4096), b""))
        assert server.process.wait(30) == 0
        assert 1.4 < time.monotonic() - begun < 4.5
        assert data.startswith(b"HTTP/1.1 503 ")
        assert b"the server is stopping" in data
        assert server.log[-1] == "stopped."
        assert not any("Traceback" in line for line in server.log), "\n".join(server.log)


# detection


def test_a_thousand_short_texts_are_told_quickly() -> None:
    begun = time.process_time()
    for _ in range(1000):
        detect("A dog runs on the grass.", ["en", "de"])
    assert time.process_time() - begun < 1.0


def test_the_way_in_is_open_between_two_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else there is to do is done after each text of a list."""
    order: list[str] = []
    beside: list[asyncio.Future[None]] = []
    wanted = asked.LibreTranslate(q=["a", "b", "c"], source="auto", target="de")

    async def read(*_: Any, **__: Any) -> asked.LibreTranslate:
        beside.append(asyncio.ensure_future(other()))
        return wanted

    async def other() -> None:
        for _ in wanted.q:
            order.append("other")
            await asyncio.sleep(0)

    async def nothing(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(libre, "_text", lambda service, wanted, text: order.append(text))
    monkeypatch.setattr(libre, "_translated", nothing)
    monkeypatch.setattr(libre, "_answer", lambda *_: {})
    service: Any = SimpleNamespace(deadline=time.monotonic, read=read, check_characters=len)
    asyncio.run(endpoints_of(libre.router(service).routes)["POST", "/translate"](Request({"type": "http"})))  # type: ignore[arg-type]
    assert order == ["a", "other", "b", "other", "c", "other"]
