"""What the server answers in place of a translation: one sentence, with its HTTP status."""

from __future__ import annotations

from dragoman.errors import DragomanError


class BadRequestError(DragomanError):
    """A request that says nothing that can be done."""


class ForbiddenError(DragomanError):
    """No key, or a wrong one."""

    http_status = 403


class NotFoundError(DragomanError):
    """A place or a model that there is not."""

    http_status = 404


class SlowClientError(DragomanError):
    """A request that did not arrive in time."""

    http_status = 408


class TooLargeError(DragomanError):
    """More than the server takes at once."""

    http_status = 413


class MediaTypeError(DragomanError):
    """A request that is neither JSON nor a form, or packed."""

    http_status = 415


class BusyError(DragomanError):
    """The queue is full; ``retry_after`` seconds from now it may not be."""

    http_status = 429

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests are waiting; try again in {retry_after} s.")
        self.retry_after = retry_after


class InternalError(DragomanError):
    """A fault of ours, of which the client learns nothing; the log says it."""

    http_status = 500

    def __init__(self) -> None:
        super().__init__("the server failed at this request; its operator finds the reason in its log.")


class StoppingError(DragomanError):
    """The server is about to end."""

    http_status = 503

    def __init__(self) -> None:
        super().__init__("the server is stopping; try again later.")


class LateError(DragomanError):
    """The time for an answer is over."""

    http_status = 504

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s; send less at once, or try again later.")


class GoneError(Exception):
    """The client hung up: there is nobody to answer."""
