"""Whether the tokenizers fit the text: unknown words, bytes, text that does not come back, tokens never used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dragoman.config import ModelConfig
from dragoman.preflight.finding import Finding, share_text
from dragoman.text.corpus import TokenCorpus
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

# Unknown tokens of all tokens: a word vocabulary of news text leaves 2 to 5 %. Beyond the second share there is
# nothing left to learn from.
_UNKNOWN = 0.08
_HOPELESS = 0.9
# A vocabulary learned from such text has 3 bytes and more a token; one for another language falls back to bytes.
_LEAST_BYTES = 1.5
_LOST = 1e-3
_UNUSED = 0.6
# Texts that are tokenised at most, tokens that are counted at most, and texts below which nothing is said.
_MOST_TEXTS = 10_000
_MOST_TOKENS = 20_000_000
_LEAST_TEXTS = 20


def _spread(texts: Sequence[str]) -> Sequence[str]:
    """At most ``_MOST_TEXTS`` of the texts, evenly."""
    return texts[:: -(-len(texts) // _MOST_TEXTS)] if texts else texts


def fit(name: str, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Finding]:
    """How a tokenizer copes with texts, which ``name`` calls: unknown tokens, single bytes, losses on the way back."""
    texts = [text for text in _spread(texts) if text.strip()]
    if len(texts) < _LEAST_TEXTS:
        return
    rows = tokenizer.encode_batch(texts)
    tokens = max(1, sum(map(len, rows)))
    unknown = sum(row.count(tokenizer.unk_id) for row in rows) / tokens
    if unknown >= _UNKNOWN:
        yield Finding(
            "error" if unknown >= _HOPELESS else "warning",
            f"{share_text(unknown)} of the tokens of {name} are unknown words; use subwords (tokenizer.kind: bpe), a "
            "larger tokenizer.vocab_size, or a tokenizer that was trained on such text.",
        )
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) / tokens
    if size < _LEAST_BYTES and tokenizer.kind in ("bpe", "unigram"):
        yield Finding(
            "warning",
            f"a token of {name} holds {size:.1f} bytes on average, so that words are spelt letter by letter; train "
            "the tokenizer on such text, or raise tokenizer.vocab_size.",
        )
    yield from _round_trip(name, tokenizer, texts, rows)


def _round_trip(name: str, tokenizer: Tokenizer, texts: Sequence[str], rows: list[list[int]]) -> Iterator[Finding]:
    back = tokenizer.decode_batch(rows)
    lost = [
        (text, got)
        for text, row, got in zip(texts, rows, back, strict=True)
        # An unknown word is counted above.
        if tokenizer.unk_id not in row and got != tokenizer.normalize(text)
    ]
    share = len(lost) / len(texts)
    if share < _LOST:
        return
    words = tokenizer.kind in ("wordlevel", "rules")
    text, got = min(lost, key=lambda pair: len(pair[0]))
    yield Finding(
        "note" if words else "warning",
        f"the tokenizer gives {share_text(share)} of {name} back changed ({text[:60]!r} as {got[:60]!r}), so that no "
        "translation can match such a reference; "
        + ("use subwords (tokenizer.kind: bpe) where that matters." if words else "use tokenizer.kind: bpe."),
    )


def ids(config: ModelConfig, tokenizers: TokenizerPair) -> Iterator[Finding]:
    """Whether the model's sizes and special ids are the tokenizers'."""
    wanted = {
        "src_vocab_size": tokenizers.src.vocab_size,
        "tgt_vocab_size": tokenizers.tgt.vocab_size,
        "src_pad_id": tokenizers.src.pad_id,
        "tgt_pad_id": tokenizers.tgt.pad_id,
        "bos_id": tokenizers.tgt.bos_id,
        "eos_id": tokenizers.tgt.eos_id,
    }
    for name, value in wanted.items():
        if (own := getattr(config, name)) != value:
            yield Finding(
                "error",
                f"the model's {name} is {own} and the tokenizer's {value}; pair the model with the tokenizer that it "
                "was trained with.",
            )
    if config.tie_embeddings == "all" and not tokenizers.joint:
        yield Finding(
            "error",
            "one matrix embeds both languages (tie_embeddings: all), but an id means another token on each side; set "
            "tokenizer.joint: true, or tie_embeddings: decoder.",
        )


def unused(corpus: TokenCorpus, tokenizers: TokenizerPair) -> Iterator[Finding]:
    """Tokens that the training text never uses, whose embeddings no training will move."""
    pairs, used = len(corpus), [np.zeros(one.vocab_size, bool) for one in (tokenizers.src, tokenizers.tgt)]
    counted = 0
    for index in range(pairs):
        for seen, row in zip(used, corpus.pair(index), strict=True):
            seen[row] = True
            counted += len(row)
        if counted > _MOST_TOKENS:
            return
    if tokenizers.joint:
        used = [used[0] | used[1]]
    for name, seen in zip(
        ("the", "the target's") if len(used) == 1 else ("the source's", "the target's"), used, strict=False
    ):
        share = 1 - seen.mean()
        if share >= _UNUSED and len(seen) > 1000:
            yield Finding(
                "warning",
                f"{share_text(share)} of {name} {len(seen):,} tokens never occur in the training text; train the "
                "tokenizer on this text, or lower tokenizer.vocab_size.",
            )
