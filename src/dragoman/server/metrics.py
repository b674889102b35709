"""What the server counts, for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry, "namespace": "dragoman"}
        self.requests = Counter("requests", "Answers by path and HTTP status.", ["path", "status"], **own)
        self.seconds = Histogram("request_seconds", "Time to an answer.", ["path"], buckets=_SECONDS, **own)
        self.waiting = Gauge("queue_requests", "Requests that wait for a model.", ["model"], **own)
        self.sentences = Histogram("batch_sentences", "Sentences of a batch.", ["model"], buckets=_SIZES, **own)
        self.shared = Histogram("batch_requests", "Requests that share a batch.", ["model"], buckets=_SIZES, **own)
        self.batch_seconds = Histogram("batch_seconds", "Time of a batch.", ["model"], buckets=_SECONDS, **own)
        self.mean = Gauge("batch_sentences_mean", "Mean size of a batch since the start.", ["model"], **own)
        self.tokens = Counter("tokens", "Tokens read and written, special ones included.", ["model", "side"], **own)
        # Looking up labels costs more than counting.
        self._answers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def of_model(self, name: str, waiting: Callable[[], int]) -> ModelMeter:
        """The counters of one model; ``waiting`` says how many requests wait for it."""
        self.waiting.labels(name).set_function(waiting)
        return ModelMeter(self, name)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        counters = self._answers.get((path, status))
        if counters is None:
            counters = self.requests.labels(path, str(status)), self.seconds.labels(path)
            self._answers[path, status] = counters
        counters[0].inc()
        counters[1].observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


class ModelMeter:
    """Counts the batches of one model; safe between threads."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._mean = metrics.mean.labels(name)
        self._sentences, self._shared = metrics.sentences.labels(name), metrics.shared.labels(name)
        self._seconds = metrics.batch_seconds.labels(name)
        self._read, self._written = (metrics.tokens.labels(name, side) for side in ("source", "target"))
        self._lock = threading.Lock()
        self._batches = self._total = 0

    def batch(self, sentences: int, requests: int, seconds: float) -> None:
        """Count a batch."""
        with self._lock:
            self._batches += 1
            self._total += sentences
            self._mean.set(self._total / self._batches)
        self._sentences.observe(sentences)
        self._shared.observe(requests)
        self._seconds.observe(seconds)

    def tokens(self, read: int, written: int) -> None:
        """Count tokens of texts and of their translations."""
        self._read.inc(read)
        self._written.inc(written)
