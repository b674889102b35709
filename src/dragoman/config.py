"""Every setting of dragoman, as frozen pydantic models; the description of each field says its unit.

An unknown key is an error that names the nearest known one. Reading YAML is in :mod:`dragoman.configfile`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from dragoman.errors import ConfigError, Setting, nearest
from dragoman.fields import (
    AboveZero,
    Config,
    Count,
    Extent,
    Fraction,
    Length,
    NotNegative,
    Number,
    Positive,
    Ratio,
    Seed,
    Thousand,
)

Files = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v), Field(min_length=1)]


class ModelConfig(Config):
    """The shape of a Transformer. Defaults are ours, not the paper's: see :meth:`preset`."""

    src_vocab_size: Positive | None = Field(None, description="source tokens; null: the tokenizer's")
    tgt_vocab_size: Positive | None = Field(None, description="target tokens; null: the tokenizer's")
    d_model: Positive = Field(512, description="width of the residual stream, in features")
    n_heads: Positive = Field(8, description="attention heads; d_model must be a multiple")
    n_kv_heads: Positive | None = Field(
        None, description="key and value heads, shared by groups of heads; null: n_heads"
    )
    n_encoder_layers: Count = Field(6, description="layers")
    n_decoder_layers: Count = Field(6, description="layers")
    d_ff: Positive = Field(2048, description="inner width of the feed-forward part, in features")
    feed_forward: Literal["relu", "gelu", "silu", "glu", "bilinear", "reglu", "geglu", "swiglu"] = Field(
        "relu", description="activation, or gated variant (Shazeer 2020)"
    )
    norm: Literal["layer", "std", "std_scalar", "rms"] = Field(
        "layer", description="layer; std: n-1 deviation, eps outside the root; std_scalar: std, one gain; rms"
    )
    norm_eps: AboveZero = Field(1e-5, description="added to the variance (std: to the deviation)")
    norm_first: bool = Field(True, description="true: pre-norm; false: post-norm, as in the paper")
    final_norm: bool = Field(True, description="a norm after the last layer of each stack")
    positions: Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "none", "table"] = Field(
        "sinusoidal", description="how a token's position enters"
    )
    max_length: Positive = Field(1024, description="tokens; learned and table positions end here")
    scale_embeddings: bool = Field(True, description="multiply embeddings by sqrt(d_model)")
    tie_embeddings: Literal["none", "decoder", "all"] = Field(
        "none", description="decoder: output = target embedding; all: the source embedding too"
    )
    attention_bias: bool | Annotated[str, Field(pattern="^q?k?v?o?$")] = Field(
        True, description="biases of the attention projections: true, false, or some of the letters qkvo"
    )
    feed_forward_bias: bool = Field(True, description="biases of the feed-forward projections")
    output_bias: bool = Field(True, description="a bias per target token in the output projection")
    init: Literal["xavier", "kaiming", "torch", "marian"] = Field(
        "xavier", description="initial values of the matrices (marian: N(0, 0.02²))"
    )
    embedding_init: Literal["normal", "like_init"] = Field(
        "normal", description="normal: N(0, 1/d_model); like_init: as the other matrices (torch: N(0, 1))"
    )
    bias_init: Literal["zero", "torch"] | None = Field(
        None, description="biases: zero, or torch: U(±1/sqrt(fan_in)); null: torch for kaiming and torch, else zero"
    )
    dropout: Fraction = Field(0.1, description="probability, on each sub-layer's output before it is added")
    attention_dropout: Fraction | None = Field(None, description="probability, on attention weights; null: dropout")
    activation_dropout: Fraction | None = Field(None, description="probability, inside the feed-forward; null: dropout")
    embedding_dropout: Fraction | None = Field(None, description="probability, after the positions; null: dropout")
    src_pad_id: Count = Field(1, description="id that fills source rows")
    tgt_pad_id: Count = Field(1, description="id that fills target rows")
    bos_id: Count = Field(2, description="id that the decoder starts from")
    eos_id: Count = Field(3, description="id that ends a sentence")
    src_bos: bool = Field(False, description="the source begins with bos_id")
    src_eos: bool = Field(True, description="the source ends with eos_id")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}")
        if self.n_heads % self.kv_heads:
            raise ValueError(f"n_heads {self.n_heads} is not a multiple of n_kv_heads {self.kv_heads}")
        if self.positions == "rotary" and self.d_head % 2:
            raise ValueError(f"rotary positions need an even head width, and d_model / n_heads is {self.d_head}")
        sizes = (self.src_vocab_size, self.tgt_vocab_size)
        if self.tie_embeddings == "all" and sizes[0] != sizes[1]:
            raise ValueError(
                f"tie_embeddings: all needs one joint vocabulary, and the sizes are {sizes[0]} and {sizes[1]}"
            )
        ids = {"tgt_pad_id": self.tgt_pad_id, "bos_id": self.bos_id, "eos_id": self.eos_id}
        for name, value in ids.items():
            if self.tgt_vocab_size is not None and value >= self.tgt_vocab_size:
                raise ValueError(f"{name} {value} lies outside the target vocabulary of {self.tgt_vocab_size}")
        if self.src_vocab_size is not None and self.src_pad_id >= self.src_vocab_size:
            raise ValueError(
                f"src_pad_id {self.src_pad_id} lies outside the source vocabulary of {self.src_vocab_size}"
            )
        return self

    @property
    def d_head(self) -> int:
        """Width of one head, in features."""
        return self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        """Key and value heads, the default resolved."""
        return self.n_kv_heads or self.n_heads

    @property
    def biases(self) -> str:
        """The attention projections that have a bias, as some of the letters ``qkvo``."""
        if isinstance(self.attention_bias, bool):
            return "qkvo" if self.attention_bias else ""
        return self.attention_bias

    def dropout_of(self, part: Literal["attention", "activation", "embedding"]) -> float:
        """The probability for one part, the default resolved."""
        own: float | None = getattr(self, f"{part}_dropout")
        return self.dropout if own is None else own

    @classmethod
    def preset(cls, name: str, **changes: Any) -> ModelConfig:
        """A published shape by name (``transformer-base`` is the paper's), with ``changes`` on top.

        Raises :class:`ConfigError` for a name that :data:`dragoman.presets.PRESETS` lacks.
        """
        from dragoman.presets import PRESETS

        if name not in PRESETS:
            raise ConfigError(
                f'no preset is called "{name}"{nearest(name, list(PRESETS))}; there are {", ".join(PRESETS)}.'
            )
        return cls(**{**PRESETS[name], **changes})


class TokenizerConfig(Config):
    """How text becomes token ids."""

    kind: Literal["bpe", "unigram", "wordlevel", "rules", "sentencepiece"] = Field("bpe", description="algorithm")
    vocab_size: Positive = Field(8000, description="tokens at most, the special ones included")
    joint: bool = Field(True, description="one vocabulary for both languages")
    lowercase: bool = Field(False, description="lower-case all text first (default for rules: true)")
    min_frequency: Positive = Field(2, description="occurrences below which a word (bpe: a merge) is left out")
    bpe_dropout: Fraction = Field(0.0, description="bpe: probability of leaving out a merge, training text only")
    path: str | None = Field(None, description="a tokenizer file, or a folder that holds some: loaded if it exists")

    @model_validator(mode="before")
    @classmethod
    def _rules_lower_case(cls, values: Any) -> Any:
        """The recipe that ``rules`` comes from lower-cases; saying false keeps case."""
        if isinstance(values, dict) and values.get("kind") == "rules":
            return {"lowercase": True, **values}
        return values


class _Streamed(Config):
    """Training text that is read while it is used (docs/scaling.md); the other settings are of this one."""

    streaming: bool = Field(False, description="training text: tokenise it while training, nothing is stored")
    shuffle_buffer: Positive = Field(1 << 16, description="pairs that are in memory and shuffled together")
    parts: Positive | None = Field(
        None, description="parts read side by side, a multiple of the processes; null: by files and processes"
    )
    tokenizer_pairs: Positive = Field(1_000_000, description="first pairs: tokenizers learn, pairs are held out there")
    pairs: Positive | None = Field(None, description="pairs of an epoch; null: the data set's, or counted in the first")

    @model_validator(mode="after")
    def _needs_streaming(self) -> Self:
        fields = _Streamed.model_fields.items()
        others = [name for name, field in fields if getattr(self, name) != field.default]
        if others and not self.streaming:
            raise ValueError(f"{' and '.join(others)} would have no effect without streaming: true")
        return self


class TextCorpus(_Streamed):
    """Line-aligned text files, plain or .gz; several files a side are read one after the other."""

    src: Files = Field(description="a file of the source language, or a list of them")
    tgt: Files = Field(description="a file of the target language, or a list of them, line to line with src")


class TableCorpus(_Streamed):
    """Files with a field for each language: .tsv .csv .jsonl .parquet (.gz too), or a folder saved by ``datasets``."""

    path: Files = Field(description="a file or folder, or a list of them")
    src_field: str | Count = Field(0, description="column name (dots go into nested fields), or its index from 0")
    tgt_field: str | Count = Field(1, description="column name (dots go into nested fields), or its index from 0")
    header: bool | None = Field(
        None, description="tsv, csv: the first row is a header; null: yes where a field is a name"
    )
    split: str | None = Field(None, description="a folder saved by datasets: the split in it")


class HubCorpus(_Streamed):
    """A data set on the Hugging Face Hub, or anything else that ``datasets.load_dataset`` takes by name."""

    hub: str = Field(description="name of the data set")
    name: str | None = Field(None, description="configuration of the data set")
    split: str = Field("train", description="the split in it")
    revision: str | None = Field(None, description="commit or tag")
    src_field: str = Field(description="column name, dots go into nested fields: translation.en")
    tgt_field: str = Field(description="the same for the target")


class HeldOutCorpus(Config):
    """Pairs held out from the training text by seed; no sentence of either side stays in training."""

    split: Positive = Field(description="pairs to hold out")


def _corpus_kind(value: Any) -> str:
    """Choose the kind of corpus by the keys given, so that the error for a bad key is about that kind."""
    if isinstance(value, dict):
        for key, kind in (("hub", HubCorpus), ("path", TableCorpus), ("split", HeldOutCorpus)):
            if key in value:
                return kind.__name__
        return TextCorpus.__name__
    return type(value).__name__


Corpus = Annotated[
    Annotated[TextCorpus, Tag("TextCorpus")]
    | Annotated[TableCorpus, Tag("TableCorpus")]
    | Annotated[HubCorpus, Tag("HubCorpus")],
    Discriminator(_corpus_kind),
]
ValidCorpus = Annotated[
    Annotated[TextCorpus, Tag("TextCorpus")]
    | Annotated[TableCorpus, Tag("TableCorpus")]
    | Annotated[HubCorpus, Tag("HubCorpus")]
    | Annotated[HeldOutCorpus, Tag("HeldOutCorpus")],
    Discriminator(_corpus_kind),
]


class DataConfig(Config):
    """Where the text is and which training pairs are kept."""

    src_lang: str = Field("src", description="language code of the source")
    tgt_lang: str = Field("tgt", description="language code of the target")
    dir: str = Field(".", description="folder that relative paths start from; default: the configuration file's")
    train: Corpus = Field(description="the training text")
    valid: ValidCorpus | None = Field(None, description="what validation is on; null: there is none")
    test: Corpus | None = Field(None, description="scored at the end of the training; null: nothing is")
    max_length: Positive = Field(256, description="tokens of either side; longer training pairs are dropped, counted")
    max_ratio: Annotated[float, Field(ge=1.0), Number] = Field(
        9.0, description="tokens, longer : shorter side; as above"
    )

    @model_validator(mode="after")
    def _trains_alone(self) -> Self:
        for name in ("valid", "test"):
            if getattr(getattr(self, name), "streaming", False):
                raise ValueError(f"{name} cannot be streaming: only the training text is")
        return self


class TrainConfig(Config):
    """The training loop. A step is one optimizer update."""

    batch_tokens: Positive = Field(4096, description="tokens of a batch, per side, padding included, per process")
    accumulate: Positive = Field(1, description="batches in one update")
    max_steps: Positive | None = Field(None, description="updates")
    max_epochs: Positive | None = Field(None, description="passes over the training text")
    max_minutes: AboveZero | None = Field(None, description="minutes; the last validation comes on top")
    lr: AboveZero = Field(1e-3, description="the peak; for noam the factor")
    schedule: Literal["noam", "inverse_sqrt", "cosine", "linear", "plateau", "constant"] = Field(
        "inverse_sqrt", description="how the rate goes on after its rise"
    )
    warmup_steps: Count = Field(400, description="updates of linear rise (plateau: steps before it is consulted)")
    warmup_ratio: Fraction | None = Field(None, description="share of the horizon; where set, in place of warmup_steps")
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0), Number] = Field(
        0.5, description="the rate is multiplied by this"
    )
    plateau_patience: Count = Field(3, description="validations without improvement that are borne")
    label_smoothing: Fraction = Field(0.1, description="probability spread over the vocabulary")
    clip_norm: NotNegative = Field(1.0, description="largest gradient norm; 0: no clipping")
    optimizer: Literal["adam", "adamw"] = Field("adam", description="adamw: weight decay apart from the gradient")
    betas: tuple[Fraction, Fraction] = Field((0.9, 0.98), description="decay per step of Adam's two averages")
    eps: AboveZero = Field(1e-9, description="added to the root of Adam's second average")
    weight_decay: NotNegative = Field(0.0, description="matrices only, embeddings excepted")
    precision: Literal["fp32", "bf16", "fp16"] = Field("fp32", description="type of the products; weights stay fp32")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="auto: cuda, else mps, else cpu")
    average_last: Count = Field(0, description="checkpoints averaged for validation and the bundles; 0: none")
    ema: Fraction = Field(0.0, description="decay per step of the averaged weights; 0: off")
    best_metric: Literal["loss", "bleu", "chrf"] = Field("loss", description="of validation: what best/ is chosen by")
    patience: Positive | None = Field(None, description="validations without improvement that end the training")
    valid_every: Positive | None = Field(None, description="steps between validations; null: once an epoch")
    save_every: Positive | None = Field(None, description="steps between checkpoints; null: at each validation")
    keep: Positive = Field(3, description="newest checkpoints kept")
    log_every: Positive = Field(50, description="steps between records; a console shows one in ten seconds")
    sample_sentences: Count = Field(3, description="validation sentences printed at each validation")
    seed: Seed = Field(1, description="of the weights, the order of the text, dropout and pairs held out")
    threads: Annotated[int, Field(ge=1, le=1024), Number] | None = Field(
        None, description="CPU threads; null: all processors"
    )
    compile: bool = Field(False, description="torch.compile the model")
    init_from: str | None = Field(None, description="model directory to go on from; its tokenizer is kept")

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.max_steps is self.max_epochs is self.max_minutes is None:
            raise ValueError("training never ends: set max_steps, max_epochs or max_minutes")
        return self


class DecodeConfig(Config):
    """How a translation is searched for."""

    beam_size: Thousand = Field(5, description="hypotheses kept; 1: greedy")
    length_norm: Literal["gnmt", "power", "none"] = Field("gnmt", description="((5+n)/6)^A (Wu et al. 2016), n^A or 1")
    length_penalty: Annotated[float, Field(ge=-10.0, le=10.0), Number] = Field(1.0, description="the exponent A")
    n_best: Thousand = Field(1, description="translations returned per sentence")
    stop_after: Count = Field(0, description="end once so many hypotheses have ended; 0: when nothing open can win")
    max_length_ratio: Ratio = Field(2.0, description="target tokens per source token")
    max_length_extra: Extent = Field(10, description="target tokens on top of the ratio")
    max_length: Length | None = Field(None, description="target tokens; where set, in place of ratio and extra")
    min_length: Extent = Field(0, description="target tokens before the end may come, whatever ratio and extra allow")
    min_length_ratio: Ratio = Field(
        0.0, description="target tokens per source token before the end may come; the larger of both counts"
    )
    sample: bool = Field(False, description="draw tokens at random in place of searching")
    temperature: AboveZero = Field(1.0, description="logits are divided by this before drawing")
    top_k: Count = Field(0, description="draw from the k likeliest only; 0: all")
    top_p: Annotated[float, Field(gt=0.0, le=1.0), Number] = Field(
        1.0, description="draw from the likeliest that reach p"
    )
    seed: Seed = Field(1, description="of the sampling; line k draws from (seed, k)")
    no_repeat_ngram: Count = Field(0, description="no n-gram of this size twice in a translation; 0: off")
    suppress: tuple[str, ...] = Field((), description="target tokens that never come, as a translation shows them")
    renormalize: bool = Field(False, description="probabilities are of the tokens that may come at all, in scoring too")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.n_best > self.beam_size and not self.sample:
            width = f" of at least {self.n_best}, and it is {self.beam_size}"
            raise ValueError(Setting("n_best"), f" {self.n_best} needs a ", Setting("beam_size"), width)
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(*self._above("min_length", "max_length"))
        if self.max_length is None and self.min_length_ratio > self.max_length_ratio:
            raise ValueError(*self._above("min_length_ratio", "max_length_ratio"))
        return self

    def _above(self, low: str, high: str) -> tuple[str | Setting, ...]:
        return Setting(low), f" {getattr(self, low)} is above ", Setting(high), f" {getattr(self, high)}"

    def limit(self, src_length: int) -> int:
        """The most target tokens (``</s>`` included) for a source of ``src_length`` tokens (its ``</s>`` included).

        What the source's length allows leaves room for ``min_length`` tokens and ``</s>``.
        """
        if self.max_length is not None:
            return self.max_length
        return max(self.min_length + 1, math.floor(self.max_length_ratio * src_length) + self.max_length_extra)

    def least(self, src_length: int, limit: int) -> int:
        """The target tokens that come before ``</s>``, for a source as above and at most ``limit`` target tokens.

        The ratio leaves room for ``</s>`` within the limit; ``min_length`` is taken as it is.
        """
        return max(self.min_length, min(math.floor(self.min_length_ratio * src_length), limit - 1))


class RunConfig(Config):
    """Everything about one training run."""

    name: Annotated[str, Field(pattern=r"^[^/\\\x00-\x1f]*[^/\\\x00-\x1f.][^/\\\x00-\x1f]*$")] = Field(
        "run", description="a file name: the run directory is runs/NAME unless --out says otherwise"
    )
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig
    decode: DecodeConfig = DecodeConfig()
