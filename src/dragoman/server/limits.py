"""How much a server takes, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

# A character of a JSON string takes up to two escapes of six bytes; the rest of a request is small.
_BYTES_A_CHARACTER = 12
_BYTES_BESIDE = 1 << 16


@dataclass(frozen=True)
class Limits:
    """``max_queue`` requests wait for a model; a request holds ``max_characters`` and is answered within ``timeout`` s.

    ``body_seconds``: for a request to arrive, and for its answer to be taken. ``batch_tokens``: source tokens of a
    batch, padding included, at a beam of 5. ``sentence_tokens``: source tokens of a sentence, where the model takes
    that many. ``max_work``: target tokens of a request, those of every hypothesis, as ``cost.py`` counts them.
    ``grace``: seconds that a stop leaves to what came. ``attention_sentences``: of a request that asks for attention;
    ``attention_tokens``: of such a sentence and of its translation; ``attention_weights``: in one answer, some nine
    bytes each. ``linked``: translations, of a request with HTML, whose words are linked. ``phrases``: terms that stand
    in one sentence. ``max_connections``: open at a time.
    """

    max_queue: int = 256
    max_characters: int = 20_000
    timeout: float = 60.0
    body_seconds: float = 10.0
    batch_tokens: int = 2048
    sentence_tokens: int = 1024
    max_work: int = 2_500_000
    grace: float = 25.0
    attention_sentences: int = 8
    attention_tokens: int = 256
    attention_weights: int = 2_000_000
    linked: int = 1000
    phrases: int = 16
    max_connections: int = 1000

    @property
    def max_body(self) -> int:
        """Bytes of a request."""
        return _BYTES_A_CHARACTER * self.max_characters + _BYTES_BESIDE
