"""The files of the web page, and how they are served."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from bundles import LINES
from conftest import REPOSITORY
from serving import Server

STATIC = Path(str(files("dragoman.server").joinpath("static")))
VIEWS = Path(str(files("dragoman.visualize").joinpath("assets")))
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
SCRIPTS = sorted(STATIC.glob("js/*.js"))


class Page(HTMLParser):
    """The elements of a document: names, attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data: str) -> None:
        assert self.inside not in ("script", "style") or not data.strip(), "script or style in the page itself"


@pytest.fixture(scope="module")
def page() -> Page:
    return Page((STATIC / "index.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_small_and_ask_nobody_else(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert max(map(len, text.splitlines())) <= 145
    assert not set(re.findall(r"https?://[^\"' )]+", text)) - {"http://www.w3.org/2000/svg"}
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "@import",
        "url(",
    ):
        assert word not in text


def test_the_page_holds_no_script_and_no_style(page: Page) -> None:
    for tag, attributes in page.elements:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")], tag
        assert tag != "style"
    own = [one.get("src") or one.get("href") for tag, one in page.elements if tag in ("script", "link")]
    assert len(own) > 5
    for address in own:
        assert address is not None
        folder, _, name = address.partition("/")
        assert {"static": STATIC, "views": VIEWS}[folder].joinpath(name).is_file(), address


def test_what_scripts_name_is_there(page: Page) -> None:
    """Every id stands once; every id that a script asks for, and every module that one imports, exists."""
    ids = [one["id"] for _, one in page.elements if "id" in one]
    assert len(ids) == len(set(ids)) > 30
    asked = {name for path in SCRIPTS for name in re.findall(r'part\("([^"]+)"\)', path.read_text())}
    assert len(asked) > 20
    assert asked <= set(ids)
    for tag, attributes in page.elements:
        for name in ("for", "aria-labelledby", "aria-describedby"):
            assert (attributes.get(name) or "").split() == [
                one for one in (attributes.get(name) or "").split() if one in ids
            ], tag
    imported = {"main.js", "theme.js"}
    for path in SCRIPTS:
        for names, module in re.findall(r'^import \{([^}]+)\} from "\./([^"]+)";$', path.read_text(), re.MULTILINE):
            imported.add(module)
            there = (STATIC / "js" / module).read_text()
            for name in names.split(","):
                assert re.search(rf"^export .*\b{name.strip()}\b", there, re.MULTILINE), (path.name, name)
                assert len(re.findall(rf"\b{name.strip()}\b", path.read_text())) > 1, f"{path.name} does not use {name}"
    assert imported == {path.name for path in SCRIPTS}


def policy(answer: Any) -> dict[str, list[str]]:
    parts = (one.split() for one in answer.headers["content-security-policy"].split(";"))
    return {name: values for name, *values in parts}


def test_how_the_page_is_served(web: Server) -> None:
    answer = web.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    rules = policy(answer)
    assert rules["default-src"] == ["'none'"]
    for name in ("script-src", "style-src", "connect-src", "img-src"):
        assert rules[name] == ["'self'"]
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == ["'none'"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    head = web.client.head("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(answer.content))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/static/js/main.js", "text/javascript; charset=utf-8"),
        ("/static/css/page.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "image/svg+xml"),
        ("/views/base.js", "text/javascript; charset=utf-8"),
    ],
)
def test_files_are_asked_for_again(web: Server, path: str, kind: str) -> None:
    """A browser asks each time whether a file has changed, and gets nothing where it has not."""
    answer = web.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.headers["cache-control"] == "no-cache"
    again = web.client.get(path, headers={"If-None-Match": answer.headers["etag"]})
    if path != "/":
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["cache-control"] == "no-cache"


def test_the_wheel_holds_the_page() -> None:
    """The build takes every file below the package that git does not ignore."""
    ignored = (REPOSITORY / ".gitignore").read_text().split()
    assert not [path for path in FILES if any(path.match(pattern.strip("/")) for pattern in ignored)]
    settings = (REPOSITORY / "pyproject.toml").read_text()
    assert '[tool.hatch.build.targets.wheel]\npackages = ["src/dragoman"]' in settings


def test_a_client_that_hangs_up_before_the_first_piece(web: Server) -> None:
    """A page that translates anew gives up its last request; the server ends that without an error."""
    with web.connect() as connection:
        body = f'{{"text": "{LINES[2]}", "stream": true, "options": {{"beam_size": 16}}}}'.encode()
        head = "POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert web.post("/v1/translate", text=LINES[0]).status_code == 200
    assert not any("already running" in line for line in web.log)
