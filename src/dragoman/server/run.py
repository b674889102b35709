"""Running the server: its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Generator, Sequence

import uvicorn

from dragoman.errors import RunError
from dragoman.server.app import make_app
from dragoman.server.limits import Limits
from dragoman.server.protocol import SECONDS, PatientProtocol
from dragoman.server.service import Service
from dragoman.server.waiting import Clock

logger = logging.getLogger("dragoman")

# Seconds between requests on an open connection; that the kernel holds in its queue of connections.
_IDLE_SECONDS, _BACKLOG = 15, 512
# Seconds that answers to what was given up may take, and that clients have to take them.
_ANSWER_SECONDS, _TAKE_SECONDS = 5, 1.0
# Seconds that a thread may hold the interpreter while another waits for it: Python's 5 ms would make the thread that
# answers wait for that of the model again and again.
_SWITCH_SECONDS = 0.0005


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves the signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """The signals are ours."""
        yield


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record is for the operator: what a translator warns of stands in its answer, for the client."""
    return record.levelno != logging.WARNING or not str(record.threadName).startswith("model ")


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes a free one. Raises :class:`RunError`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunError(f"cannot listen at {host}, port {port}: {reason}; choose another --host or --port.") from None


def address(listener: socket.socket) -> str:
    """Where a socket listens, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


def serve(service: Service, listener: socket.socket, cors: Sequence[str] = ()) -> None:
    """Answer requests until SIGTERM or SIGINT; then take no more, finish those that came, and return.

    What is not finished within the limits' ``grace`` is given up, and answered so. At a second signal all is given up
    at once, without an answer: a :class:`RunError`, as requests are lost.
    """
    config = uvicorn.Config(
        make_app(service, cors),
        http=_protocol(service.limits, service.clock),
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        # What came is answered or refused by then.
        timeout_graceful_shutdown=int(service.limits.grace) + _ANSWER_SECONDS,
    )
    uvicorn_logger = logging.getLogger("uvicorn")
    uvicorn_logger.handlers, uvicorn_logger.propagate = list(logger.handlers), False
    if logger.level > logging.DEBUG:
        # What is no HTTP is answered, and no news.
        uvicorn_logger.setLevel(logging.ERROR)
        logger.addFilter(_is_news)
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = _Server(config)
    # Nothing of what is loaded is garbage, and to look for some in it again and again takes time.
    gc.collect()
    gc.freeze()
    asyncio.run(_serve(server, service, listener))
    if server.force_exit:
        raise RunError("the server was stopped before it had answered every request; one signal lets it finish.")


def _protocol(limits: Limits, clock: Clock) -> type[PatientProtocol]:
    bounds = {"max_connections": limits.max_connections, "seconds": min(SECONDS, limits.body_seconds), "clock": clock}
    return type("BoundedProtocol", (PatientProtocol,), bounds)


async def _serve(server: uvicorn.Server, service: Service, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    def give_up(why: str) -> None:
        logger.warning("%s: what is not finished is given up.", why)
        service.reader.give_up()
        for model in service.catalogue.models.values():
            model.worker.give_up()
        loop.call_later(_TAKE_SECONDS, cut_off)

    def cut_off() -> None:
        for connection in list(server.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()

    def stop() -> None:
        if server.should_exit:
            server.force_exit = True
            give_up("stopping at once")
            return
        grace = service.limits.grace
        logger.info("stopping: the requests that came are finished first, for %g s at most.", grace)
        server.should_exit = True
        loop.call_later(grace, give_up, f"stopping took {grace:g} s")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    for model in service.catalogue.models.values():
        logger.info("model %s: %s to %s", model.name, model.source, model.target)
    running = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    logger.info("listening on %s", address(listener))
    await running
    if server.force_exit:
        # uvicorn leaves this out. A thread that is inside the model when the interpreter ends would take the process
        # down with an abort.
        await server.lifespan.shutdown()
    logger.info("stopped.")
