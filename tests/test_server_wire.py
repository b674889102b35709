"""The server's HTTP: offers of other protocols, long heads, keys, ranges of files, forms that were cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from bundles import make_bundle
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from dragoman.errors import UsageError
from dragoman.server.keys import Keys
from serving import Server, fine, refused, serving

BODY = b'{"q":"key","source":"en","target":"de"}'
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
MOST = 1 << 16  # bytes of a head


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    save_bundle(replace(make_bundle(), decode=DecodeConfig(beam_size=2, min_length=4)), folder / "model")
    with serving(folder / "model") as running:
        yield running
        assert running.process.poll() is None
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


@pytest.fixture(scope="module")
def expected(server: Server) -> bytes:
    """The body of the answer to BODY."""
    answer = server.client.post("/translate", content=BODY, headers={"Content-Type": "application/json"})
    fine(answer)
    return answer.content


def post(*headers: str, length: int | None = len(BODY), version: str = "1.1") -> bytes:
    """The head of a request to translate; ``length`` None: its body comes in chunks."""
    own = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"POST /translate HTTP/{version}", "host: x", "content-type: application/json", own, *headers, "", ""]
    return "\r\n".join(lines).encode()


def bodies(data: bytes) -> list[bytes]:
    """The bodies of answers that came one after the other, all of them with status 200."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), data
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        found.append(rest[:length])
        data = rest[length:]
    return found


# other protocols

OFFERS = [
    ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"),
    ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
    ("upgrade: TLS/1.2, h2c", "connection: upgrade"),
    ("Upgrade: a", "Upgrade: b", "Connection: Upgrade", "Connection: Upgrade"),
]


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_of_another_protocol_is_passed_over(
    server: Server, expected: bytes, offer: tuple[str, ...], chunked: bool
) -> None:
    """The answer is that to the request without it, and so is that to the next request on the connection."""
    length, body = (None, CHUNKED) if chunked else (len(BODY), BODY)
    first, last = post(*offer, length=length), post("Connection: close")
    assert bodies(server.exchange(first + body + last + BODY)) == [expected, expected]


def test_an_offer_in_single_bytes(server: Server, expected: bytes) -> None:
    with server.connect() as connection:
        for byte in post(*OFFERS[0], "Connection: close") + BODY:
            connection.sendall(bytes([byte]))
        assert bodies(b"".join(iter(lambda: connection.recv(65536), b""))) == [expected]


def test_many_offers_at_once(server: Server) -> None:
    """As many requests as one read holds: none is lost, and none is an offer too many."""
    one = b"GET /health HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"
    last = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert bodies(server.exchange(one * 1500 + last)) == [b'{"status":"ok"}'] * 1501


def test_an_offer_without_a_body(server: Server) -> None:
    data = server.exchange(b"GET /health HTTP/1.0\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n")
    assert bodies(data) == [b'{"status":"ok"}']
    assert b"101" not in data.split(b"\r\n")[0]


@pytest.mark.parametrize("target", ["x:80", "/health", "http://x/health"])
def test_no_tunnel(server: Server, target: str) -> None:
    data = server.exchange(f"CONNECT {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\nwhatever".encode())
    assert data.split()[1] in (b"400", b"405")


# heads


def filled(size: int, *, blank: bool = False, before: bytes = b"") -> bytes:
    """A head of so many bytes: its last header is long, or stands behind many spaces."""
    start, end = before + b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: ", b"y\r\n\r\n"
    return start + (b" " if blank else b"y") * (size - len(start) - len(end)) + end


@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("pause", [False, True])
def test_a_head_has_a_bound(server: Server, blank: bool, pause: bool) -> None:
    """Whether it comes at once or not, and whatever it is that makes it long."""

    def ask(size: int) -> bytes:
        head = filled(size, blank=blank)
        assert len(head) == size
        with server.connect() as connection:
            for at in range(0, size, 10_000) if pause else (0,):
                connection.sendall(head[at : at + 10_000] if pause else head)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    assert bodies(ask(MOST)) == [b'{"status":"ok"}']
    for size in (MOST + 1, 100_000, 250_000):
        data = ask(size)
        assert data.startswith(b"HTTP/1.1 431 "), size
        said = json.loads(data.partition(b"\r\n\r\n")[2])["error"]
        assert said == "the head of the request is longer than 65,536 bytes; send less of it."


def test_a_long_head_behind_another_request(server: Server, expected: bytes) -> None:
    """Its bytes are counted while the answer before it is on its way, too; a long body is none of them."""
    text = b'{"q":"key","source":"en","target":"de"' + b" " * 150_000 + b"}"
    assert bodies(server.exchange(post(length=len(text)) + text + post("connection: close") + BODY)) == [expected] * 2
    data = server.exchange(post() + BODY + filled(100_000))
    assert b"HTTP/1.1 431 " in data


# keys

KEY = "key-~!\"'"


def test_where_a_key_may_stand(tmp_path: Path) -> None:
    """In a header, in the body as JSON or either form, and in the address, of which LibreTranslate takes it too."""
    save_bundle(make_bundle(), tmp_path / "model")
    asked = {"q": "key", "source": "en", "target": "de"}
    with serving(tmp_path / "model", "--api-key", KEY) as locked:

        def ask(**sent: Any) -> httpx.Response:
            return locked.client.post("/translate", **sent)

        for right in (
            ask(json={**asked, "api_key": KEY}),
            ask(data={**asked, "api_key": KEY}),
            ask(files={name: (None, one) for name, one in {**asked, "api_key": KEY}.items()}),
            ask(data=asked, params={"api_key": KEY}),
            ask(json=asked, params={"api_key": KEY}),
            ask(json=asked, headers={"X-API-Key": KEY}),
            ask(json=asked, headers={"Authorization": f"bearer  {KEY}"}),
            locked.client.get("/metrics", params={"api_key": KEY}),
        ):
            assert right.status_code == 200, right.text
        for wrong in (
            ask(json={**asked, "api_key": "schlüssel"}),
            ask(data={**asked, "api_key": "schlüssel"}),
            ask(data=asked, params={"api_key": f"{KEY}ü"}),
            ask(json=asked, headers={"X-API-Key": "schlüssel".encode()}),
            ask(json=asked, headers={"X-API-Key": "schlüssel".encode("latin-1")}),
            # What comes first counts.
            ask(json={**asked, "api_key": KEY}, headers={"X-API-Key": "k"}),
            ask(json={**asked, "api_key": "k"}, params={"api_key": KEY}),
        ):
            assert "not valid" in refused(wrong, 403)
        for none in (ask(json=asked), ask(data={**asked, "api_key": ""}), ask(data=asked, params={"api_key": ""})):
            assert "an API key is needed" in refused(none, 403)
        schemes = fine(locked.get("/openapi.json"))["components"]["securitySchemes"]
        assert {"type": "apiKey", "in": "query", "name": "api_key"} in schemes.values()
        assert not any(KEY in line for line in locked.log)


@pytest.mark.parametrize("key", ["schlüssel", "ключ", "a b", "a\tb", " x!", "x!\n", "\udcff", "k" * 1001])
def test_keys_that_cannot_be_sent(key: str) -> None:
    for keys, which in (([key], "the key "), (["fine", key], "key 2 of 2 ")):
        with pytest.raises(UsageError) as caught:
            Keys(keys)
        said = str(caught.value)
        assert said.startswith(which)
        assert "choose" in said
        assert key not in said
    assert Keys(["k" * 1000, "!~"])
    assert not Keys([])


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_key_that_cannot_be_sent_ends_the_command(run_cli: Any, tmp_path: Path, way: str) -> None:
    """At once, before a model is read, in one sentence that does not give the key away."""
    args, env = (["--api-key", "schlüssel"], {}) if way == "option" else ([], {"DRAGOMAN_API_KEYS": "schlüssel"})
    result = run_cli("serve", tmp_path / "none", *args, env=env)
    assert (result.rc, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "the key holds a space or a character beyond ASCII" in result.stderr
    assert "schl" not in result.stderr


# files


@pytest.mark.parametrize("path", ["/", "/static/js/main.js", "/views/base.css"])
@pytest.mark.parametrize("given", ["bytes=0-3", "bytes=999999999-", "bytes=", "bytes=0-1,3-4", "lines=1", "bytes=-0"])
def test_a_range_of_a_file_is_passed_over(server: Server, path: str, given: str) -> None:
    whole = server.get(path)
    part = server.client.get(path, headers={"Range": given})
    assert (part.status_code, part.content) == (200, whole.content)
    assert part.headers["accept-ranges"] == "none"
    assert "content-range" not in part.headers
    head = server.client.head(path, headers={"Range": given})
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(whole.content)))
    again = server.client.get(path, headers={"If-Range": whole.headers["etag"], "Range": given})
    assert (again.status_code, again.content) == (200, whole.content)


# forms


def parted(*ends: bytes) -> bytes:
    """A multipart form with the boundary x, as far as the last field's content, and then ``ends``."""
    fields = {"source": b"en", "target": b"de", "q": b"Nobody found the key."}
    each = [b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s' % (k.encode(), v) for k, v in fields.items()]
    return b"\r\n".join(each) + b"".join(ends)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (b"\r\n--x--\r\n", 200),
        (b"\r\n--x--", 200),
        (b"\r\n--x--\r\nwhatever", 200),
        (b"", 400),
        (b"\r\n", 400),
        (b"\r\n--x", 400),
        (b"\r\n--x\r\n", 400),
        (b"\r\n--x-", 400),
        (b"\r\n--y--\r\n", 400),
        (b"\r\n--x\r\nContent-Disp", 400),
    ],
)
def test_a_form_that_was_cut(server: Server, end: bytes, status: int) -> None:
    """Half a text is not translated as if it were the whole."""
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = server.client.post("/translate", content=parted(end), headers=kind)
    if status == 200:
        fine(answer)
        return
    assert refused(answer, 400) == (
        "the form cannot be read (its end is missing: no closing boundary); send its fields again."
    )


def test_every_cut_of_a_form(server: Server) -> None:
    whole = parted(b"\r\n--x--")
    for length in range(0, len(whole), 7):
        answer = server.client.post(
            "/translate", content=whole[:length], headers={"Content-Type": "multipart/form-data; boundary=x"}
        )
        refused(answer, 400)
