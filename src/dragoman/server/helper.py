"""A translator in a process of its own, so that it computes beside the server and not in turns with it."""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import multiprocessing
import pickle
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError, RunError
from dragoman.translation import Translation

if TYPE_CHECKING:
    from dragoman.translator import Translator

logger = logging.getLogger("dragoman")

# Seconds that a process has to end when it is told to; between two looks whether what it does is still wanted.
_END_SECONDS, _LOOK_SECONDS = 10.0, 0.05


class _StopError(Exception):
    """The one who asked wants no answer any more."""


# In place of a task: stop with the one before. The process may have answered that already.
_STOP = pickle.dumps(None, pickle.HIGHEST_PROTOCOL)


class HelperProcess:
    """Translates in another process, which ``prepare`` and ``load`` set up there; both are pickled.

    It is started at once, and once more where it died. It ends with :meth:`close`, or with the process that made it.
    """

    def __init__(self, load: Callable[[], Translator], prepare: Callable[[], None]) -> None:
        self._setup = prepare, load
        self._lock = threading.Lock()
        self._closed = False
        self._start()
        atexit.register(self.close)  # before multiprocessing would wait for a process that waits for us

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process that has run torch may hang
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, *self._setup), name="helper", daemon=True)
        self._process.start()
        theirs.close()
        self._ready = False

    def wait(self) -> None:
        """Until the model is loaded. Raises what loading it raised, and :class:`RunError` where the process died."""
        if not self._ready:
            self._receive()
            self._ready = True

    def translate(
        self, text: list[str], *, check: Callable[[], object] = lambda: None, **options: Any
    ) -> list[Translation]:
        """As :meth:`Translator.translate`. Raises :class:`RunError` where the process dies of it.

        ``check`` is called again and again; what it raises ends the search there before its next step.
        """
        with self._lock:
            if not self._process.is_alive() and not self._closed:
                logger.error("a helper process is gone; another one is started.")
                self._connection.close()
                self._start()
            self.wait()
            with contextlib.suppress(OSError):  # a broken pipe is told by what cannot be received
                self._connection.send_bytes(pickle.dumps((text, options), pickle.HIGHEST_PROTOCOL))
            self._look(check)
            found: list[Translation] = self._receive()
            return found

    def _look(self, check: Callable[[], object]) -> None:
        """Wait for the answer. Where ``check`` raises, the process is told to stop, and what it says is passed over."""
        try:
            while not self._connection.poll(_LOOK_SECONDS):
                check()
        except OSError:  # told by what cannot be received
            return
        except BaseException:
            with contextlib.suppress(Exception):
                self._connection.send_bytes(_STOP)
                self._receive()
            raise

    def _receive(self) -> Any:
        try:
            answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._process.join(_END_SECONDS)
            raise RunError(f"a helper process died with {self._process.exitcode} (out of memory?).") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the process; what it does is done first."""
        with self._lock:
            self._closed = True
            self._connection.close()
            self._process.join(_END_SECONDS)
            if self._process.is_alive():
                self._process.kill()
        atexit.unregister(self.close)


def _work(connection: Connection, prepare: Callable[[], None], load: Callable[[], Translator]) -> None:
    """What the process does. It ends when nobody holds the other end of ``connection``, and at no signal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    prepare()
    # What a translator warns of stands in its answer.
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    with contextlib.suppress(EOFError, OSError):
        try:
            translator = load()
        except Exception as error:  # whatever it is, the process that waits for this one says so
            connection.send_bytes(pickle.dumps(_sendable(error)))
            return
        # Nothing of this is garbage, and to look for some in it again and again takes time.
        gc.freeze()
        connection.send_bytes(pickle.dumps(None))

        def check() -> None:
            if connection.poll():
                connection.recv_bytes()
                raise _StopError

        able = translator.interruptible(check)
        while True:
            task = pickle.loads(connection.recv_bytes())
            if task is None:
                continue
            text, options = task
            answer: Any
            try:
                answer = able.translate(text, **options)
            except _StopError:
                answer = None
            except Exception as error:  # the asker gets it, and this process goes on
                answer = _sendable(error)
            connection.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def _sendable(error: Exception) -> Exception:
    """An error that another process can read; of one that is no sentence of ours, where it came from goes along."""
    if isinstance(error, DragomanError):
        with contextlib.suppress(Exception):
            pickle.loads(pickle.dumps(error))
            return error
    import traceback

    return RuntimeError("".join(traceback.format_exception(error)))
