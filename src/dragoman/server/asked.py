"""What clients may send, field by field. The limits stand here, so that the description of the interface shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dragoman.config import DecodeConfig
from dragoman.server import keys
from dragoman.server.limits import Limits

Text = Annotated[str, Field(description="The text.")]
MOST_TEXTS = 1000  # of one request
Texts = Annotated[list[str], Field(min_length=1, max_length=MOST_TEXTS)]
Language = Annotated[str, Field(min_length=1, max_length=35, description="A language code, such as en.")]
Name = Annotated[str, Field(max_length=200)]
Phrase = Annotated[str, Field(min_length=1, max_length=1000)]
ApiKey = Annotated[
    str | None,
    Field(max_length=keys.LONGEST, description="A key, where the server asks for one and no header brings it."),
]


class Asked(BaseModel):
    """A request; keys that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    api_key: ApiKey = None


class LibreTranslate(Asked):
    """A translation, as LibreTranslate's clients ask for it; keys that it does not know are passed over."""

    model_config = ConfigDict(extra="ignore")

    q: Annotated[str, Field(min_length=1)] | Texts = Field(description="A text, or a list of texts.")
    source: Language = Field(description="The language of the text, or auto.")
    target: Language
    format: Literal["text", "html"] = Field(default="text", description="html: what stands in tags stays as it is.")
    alternatives: int = Field(default=0, ge=0, le=15, description="How many other translations to add.")
    model: Name | None = Field(default=None, description="One of several models for the same languages.")


class Detect(Asked):
    """A text of which the language is asked."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field(min_length=1)


class DecodeOptions(BaseModel):
    """How to search, in place of the model's own settings; None leaves them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    beam_size: int | None = Field(default=None, ge=1, le=16, description="Hypotheses kept; 1 is greedy.")
    n_best: int | None = Field(default=None, ge=1, le=16, description="Translations; no more than beam_size.")
    stop_after: int | None = Field(
        default=None, ge=0, le=1024, description="End a search once so many hypotheses have ended; 0: exact."
    )
    length_norm: Literal["gnmt", "power", "none"] | None = Field(default=None)
    length_penalty: float | None = Field(default=None, ge=-10, le=10, description="Exponent of the length norm.")
    max_length: int | None = Field(default=None, ge=1, le=1024, description="Target tokens, at most.")
    max_length_ratio: float | None = Field(default=None, ge=0, le=10, description="Target per source token, at most.")
    max_length_extra: int | None = Field(default=None, ge=0, le=256, description="On top of the ratio.")
    min_length: int | None = Field(default=None, ge=0, le=1024, description="Target tokens, at least.")
    min_length_ratio: float | None = Field(default=None, ge=0, le=10, description="Target per source token, at least.")
    sample: bool | None = Field(default=None, description="Draw at random in place of searching.")
    temperature: float | None = Field(default=None, gt=0, le=100)
    top_k: int | None = Field(default=None, ge=0, le=1_000_000)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, le=2**32 - 1)
    no_repeat_ngram: int | None = Field(default=None, ge=0, le=1024)
    suppress: Annotated[list[Phrase], Field(max_length=100)] | None = Field(
        default=None, description="Target tokens that never come, as a translation shows them."
    )

    renormalize: bool | None = Field(default=None, description="Probabilities are of the tokens that may come at all.")

    def given(self, own: DecodeConfig) -> dict[str, Any]:
        """The options that were given, as :meth:`Translator.translate` takes them.

        One that says what the model does anyway (``own``) is none, so that settings that mean something beside others
        alone can be sent back as the server tells them; but a beam by itself asks for a search, where ``own`` draws.
        """
        found = {name: value for name, value in self if value is not None}
        if "suppress" in found:
            found["suppress"] = tuple(found["suppress"])
        kept = {"beam_size"} - ({"beam_size"} if "sample" in found else set())
        return {name: value for name, value in found.items() if name in kept or value != getattr(own, name)}


class OneModel(Asked):
    """What chooses a model. Where several fit, the first that the server was given is taken."""

    model: Name | None = Field(default=None, description="The name of a model.")
    source: Language | None = Field(default=None, description="The language of the text, or auto.")
    target: Language | None = None
    options: DecodeOptions | None = Field(default=None, description="How to search.")

    def given(self, own: DecodeConfig) -> dict[str, Any]:
        """The options that were given; see :meth:`DecodeOptions.given`."""
        return {} if self.options is None else self.options.given(own)


class Translate(OneModel):
    """A translation with everything that is known of it."""

    text: str | Texts = Field(description="A text, or a list of texts.")
    split: bool = Field(default=True, description="Translate each sentence by itself, and put them together again.")
    prefix: str | Texts | None = Field(
        default=None, description="What the translation of a text of one sentence begins with; a list for a list."
    )
    constraints: Annotated[list[Phrase], Field(max_length=16)] | None = Field(
        default=None, description="Phrases that the translation of a text of one sentence has to hold."
    )
    terms: dict[str, Phrase] = Field(
        default={}, max_length=200, description="A phrase for each term, wherever it stands in the text."
    )
    strict_terms: bool = Field(default=False, description="A phrase that cannot be met is an error.")
    attention: bool = Field(
        default=False,
        description="Add the attention weights of the best translation: layers x heads x tokens x tokens, in one "
        f"answer at most {Limits.attention_weights:,} of them, for at most {Limits.attention_sentences} sentences of "
        f"at most {Limits.attention_tokens} tokens each, like their translations; what is more is 413.",
    )
    alignments: bool = Field(
        default=False,
        description="Add which word comes from which, as 0-0 1-2, for as many sentences and tokens as attention.",
    )
    stream: bool = Field(default=False, description="Server-sent events, for one text.")


class OneSentence(OneModel):
    """One sentence, and how its translation begins."""

    text: str = Field(min_length=1)
    prefix: str | Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=1024)] = Field(
        default="", description="What it begins with: text, or the ids of its tokens."
    )


class Alternatives(OneSentence):
    """How a translation could go on behind ``prefix``."""

    n: int = Field(default=5, ge=1, le=20, description="How many different next words.")


class Attention(OneModel):
    """What a translation attends to: the model's own, or ``tgt``."""

    text: str = Field(min_length=1)
    tgt: str | None = Field(default=None, min_length=1, description="A translation to look at in place of the best.")


class Replay(OneModel):
    """A beam search step by step."""

    text: str = Field(min_length=1)
    prefix: str | None = None
    tgt: str | None = Field(default=None, description="A translation to mark, of the n_best that are asked for.")
