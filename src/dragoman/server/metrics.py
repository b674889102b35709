"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

    def of_model(self, name: str, waiting: Callable[[], int]) -> ModelMeter:
        """The counters of one model; ``waiting`` says how many requests wait for it."""
        self.waiting.labels(name).set_function(waiting)
        return ModelMeter(self, name)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


@dataclass
class ModelMeter:
    """Counts the batches of one model."""

    metrics: Metrics
    name: str
    batches: int = 0
    total: int = 0

    def batch(self, sentences: int, requests: int, src_tokens: int, tgt_tokens: int, seconds: float) -> None:
        """Count a batch."""
        every = self.metrics
        self.batches += 1
        self.total += sentences
        every.mean.labels(self.name).set(self.total / self.batches)
        every.sentences.labels(self.name).observe(sentences)
        every.shared.labels(self.name).observe(requests)
        every.batch_seconds.labels(self.name).observe(seconds)
        every.tokens.labels(self.name, "source").inc(src_tokens)
        every.tokens.labels(self.name, "target").inc(tgt_tokens)
