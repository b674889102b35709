"""What a translation carries: the text, its score, its tokens and, on request, what it attended to.

Shapes: H heads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.model.transformer import Attention


@dataclass
class Translation:
    """One translation.

    ``logprob`` is the sum of ``token_logprobs``, the natural log-probabilities of all target tokens after
    ``<s>``, ``</s>`` included where it was produced (``finished``); ``score`` is ``logprob`` over the length norm.
    ``tokens`` and ``src_tokens`` are readable pieces, special tokens included (but not the decoder's ``<s>``);
    ``ids`` are the ids of ``tokens``. ``words`` are the words and marks of the text in order, each with the sum of
    its tokens' log-probabilities (that of ``</s>`` belongs to none). ``unmet`` are the phrases that were to appear
    and do not, each as often as it is lacking; of a blank text, which is not translated, the prefix too.
    ``alternatives`` are the other translations, best first.

    ``attention`` holds for encoder, decoder and cross a list with a tensor [H,query,key] per layer, on the CPU; a
    query of decoder and cross is the position that predicts the token of the same place in ``tokens``, a key of
    cross stands for the token of the same place in ``src_tokens``. Between the parts of a text that was translated
    in parts it is 0; ``parts`` is their number. The translation of an empty text is empty in all.
    """

    text: str
    score: float = 0.0
    logprob: float = 0.0
    tokens: list[str] = field(default_factory=list)
    src_tokens: list[str] = field(default_factory=list)
    finished: bool = True
    alternatives: list[Translation] = field(default_factory=list)
    attention: Attention | None = None
    ids: list[int] = field(default_factory=list)
    token_logprobs: list[float] = field(default_factory=list)
    words: list[tuple[str, float]] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    parts: int = 1

    def fields(self) -> dict[str, Any]:
        """Everything but the attention, for JSON; the alternatives leave out what they share with the best."""
        own: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "logprob": self.logprob,
            "finished": self.finished,
            "unmet": self.unmet,
            "words": [list(word) for word in self.words],
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "ids": self.ids,
        }
        others = [other.fields() for other in self.alternatives]
        for other in others:
            del other["alternatives"], other["src_tokens"]
        return {**own, "src_tokens": self.src_tokens, "alternatives": others}
