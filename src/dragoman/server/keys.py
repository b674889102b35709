"""The keys of a server, and whether a request brings one of them."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from dragoman.errors import UsageError
from dragoman.server.refusals import ForbiddenError

if TYPE_CHECKING:
    from starlette.requests import Request

# Characters of a key.
LONGEST = 1000
# What every client writes the same way: in a header, beyond ASCII, one sends UTF-8 and another Latin-1 (RFC 9110, 5.5).
_WRITTEN = re.compile(r"[\x21-\x7e]+")


def check(keys: Sequence[str]) -> None:
    """Raises :class:`UsageError` for a key that not every client could send, and does not repeat it."""
    for number, key in enumerate(keys, start=1):
        which = f"key {number} of {len(keys)}" if len(keys) > 1 else "the key"
        if not _WRITTEN.fullmatch(key):
            raise UsageError(
                f"{which} holds a space or a character beyond ASCII, which not every client can send in a header; "
                "choose one of ASCII letters, digits and marks."
            )
        if len(key) > LONGEST:
            raise UsageError(f"{which} has {len(key):,} characters and may have {LONGEST:,}; choose a shorter one.")


class Keys:
    """Keys of which a request has to bring one; none of them: everybody may ask."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Raises :class:`UsageError` as :func:`check` does."""
        check(keys)
        self._known = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        """Whether a key is needed."""
        return bool(self._known)

    def admit(self, request: Request, key: str | None = None) -> None:
        """Raises :class:`ForbiddenError` where no header, nor ``key``, nor the address's ``api_key`` is a key.

        The first of these that is there counts. All keys are compared, in a time that does not depend on how much of
        them is right.
        """
        if self._known:
            self._check(_of_header(request) or key or request.query_params.get("api_key"))

    def check_head(self, request: Request) -> None:
        """Raises :class:`ForbiddenError` where a header, or else the address, brings a key that is none."""
        given = _of_header(request) or request.query_params.get("api_key")
        if self._known and given:
            self._check(given)

    def _check(self, given: str | None) -> None:
        if not given:
            raise ForbiddenError("an API key is needed; send it as api_key or in the header X-API-Key.")
        digest = _digest(given)
        right = [hmac.compare_digest(digest, known) for known in self._known]
        if not any(right):
            raise ForbiddenError("the API key is not valid; ask the operator of this server for one.")


def _of_header(request: Request) -> str:
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    return request.headers.get("x-api-key") or (bearer.strip() if scheme.lower() == "bearer" else "")


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", errors="replace")).digest()
