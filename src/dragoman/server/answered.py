"""What the server sends, field by field, and translations in that form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from dragoman.server.documents import Part, put_together
from dragoman.translation import Translation

if TYPE_CHECKING:
    from dragoman.model.transformer import Attention


class Error(BaseModel):
    """What went wrong, and what to do about it."""

    error: str


class Detected(BaseModel):
    """A language, and how sure that is, in per cent."""

    language: str
    confidence: float = Field(
        ge=0, le=100, description="Its probability among all languages that are known, those not offered here included."
    )


class LibreTranslated(BaseModel):
    """A translation as LibreTranslate gives it: lists for a list of texts."""

    translatedText: str | list[str]  # noqa: N815  # the name is LibreTranslate's
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class Language(BaseModel):
    """A language that the server translates from or to, and what it can be translated into."""

    code: str
    name: str
    targets: list[str]


class Settings(BaseModel):
    """What LibreTranslate tells its web page."""

    apiKeys: bool  # noqa: N815
    charLimit: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    frontendTimeout: int  # noqa: N815
    keyRequired: bool  # noqa: N815
    language: dict[str, dict[str, str]]
    suggestions: bool
    supportedFilesFormat: list[str]  # noqa: N815


class Word(BaseModel):
    """A word of a translation, and the natural-log probability of its tokens."""

    text: str
    logprob: float
    confidence: float = Field(ge=0, le=1, description="The probability itself.")


class Hypothesis(BaseModel):
    """One translation; ``score`` is ``logprob`` over the length norm."""

    text: str
    score: float
    logprob: float
    finished: bool
    words: list[Word]
    tokens: list[str]
    token_logprobs: list[float]
    ids: list[int]
    unmet: list[str] = Field(description="Phrases that were to appear and do not.")


class AttentionWeights(BaseModel):
    """A list for each layer and head, a row for each query; the queries are ``tokens`` or ``src_tokens``."""

    encoder: list[list[list[list[float]]]]
    decoder: list[list[list[list[float]]]]
    cross: list[list[list[list[float]]]]


class Sentence(Hypothesis):
    """The best translation of a sentence; ``before`` and ``after`` are the white space around it."""

    source: str
    src_tokens: list[str]
    before: str
    after: str
    alternatives: list[Hypothesis]
    alignment: str | None = None
    attention: AttentionWeights | None = None


class Translated(BaseModel):
    """The translation of a text, whole and by sentences."""

    text: str
    sentences: list[Sentence]


class Translations(BaseModel):
    """A translation for each text, with the model that made them."""

    model: str
    source: str
    target: str
    detected: Detected | None = Field(default=None, description="Where the source was auto.")
    translations: list[Translated]


class Continuations(BaseModel):
    """Whole translations that go on with different words, likeliest first."""

    model: str
    alternatives: list[Hypothesis]


class Model(BaseModel):
    """A model and its languages."""

    name: str
    source: str
    source_name: str
    target: str
    target_name: str
    max_sentence_tokens: int
    decode: dict[str, Any] = Field(description="How it searches where a request does not say.")


class Health(BaseModel):
    """That the server works."""

    status: str


def hypothesis(found: Translation) -> dict[str, Any]:
    """A :class:`Hypothesis`."""
    return {
        "text": found.text,
        "score": found.score,
        "logprob": found.logprob,
        "finished": found.finished,
        "words": [
            {"text": text, "logprob": logprob, "confidence": min(1.0, math.exp(logprob))}
            for text, logprob in found.words
        ],
        "tokens": found.tokens,
        "token_logprobs": found.token_logprobs,
        "ids": found.ids,
        "unmet": found.unmet,
    }


def sentence(part: Part, found: Translation, alignment: str | None, attention: Attention | None) -> dict[str, Any]:
    """A :class:`Sentence`."""
    whole: dict[str, Any] = {
        **hypothesis(found),
        "source": part.body,
        "src_tokens": found.src_tokens,
        "before": part.before,
        "after": part.after,
        "alternatives": [hypothesis(other) for other in found.alternatives],
    }
    if alignment is not None:
        whole["alignment"] = alignment
    if attention is not None:
        whole["attention"] = {
            kind: [_rounded(layer) for layer in getattr(attention, kind)] for kind in ("encoder", "decoder", "cross")
        }
    return whole


def _rounded(layer: Any) -> Any:
    return layer.double().numpy().round(6).tolist()


def translated(parts: Sequence[Part], sentences: list[dict[str, Any]]) -> dict[str, Any]:
    """A :class:`Translated`."""
    return {"text": put_together(parts, [one["text"] for one in sentences]), "sentences": sentences}
