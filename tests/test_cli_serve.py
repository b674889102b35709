"""``dragoman serve``: what is refused before a model is read."""

from __future__ import annotations

import pytest

from dragoman.cli.serve import serve
from dragoman.errors import DragomanError, UsageError


@pytest.mark.parametrize(
    "origin",
    [
        "nonsense",
        "",
        "example.org",
        "https://",
        "https://example.org/",
        "https://example.org/a",
        "https://*",
        "HTTPS://x",
        "https://Example.org",
        "https://a b",
        "https://x:",
        "https://x:port",
        "https://x?y",
        "null",
        "* ",
        "https://x,https://y",
    ],
)
def test_origins_that_no_page_has(origin: str) -> None:
    with pytest.raises(UsageError) as caught:
        serve(["no/model"], port=0, cors=["https://example.org", origin])
    assert str(caught.value).startswith(
        f'--cors is "{origin}", which no page can come from; give * or an origin such as'
    )


@pytest.mark.parametrize(
    "origin",
    ["*", "http://localhost:3000", "https://a-b.example.org", "http://[::1]:80", "http://127.0.0.1", "app://x_y"],
)
def test_origins_of_pages(origin: str) -> None:
    with pytest.raises(DragomanError, match="no/model"):
        serve(["no/model"], port=0, cors=[origin])
