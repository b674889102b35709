"""The word-level JSON that hkproj's code saves, as it is: ``[UNK] [PAD] [SOS] [EOS]`` and words between white space."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import tokenizers

from dragoman.errors import BundleError
from dragoman.files import write_text
from dragoman.text.json_tokenizer import WordLevelTokenizer, parse_json

SPECIAL_TOKENS = ("[UNK]", "[PAD]", "[SOS]", "[EOS]")


class ForeignWordTokenizer(WordLevelTokenizer):
    """hkproj's tokenizer: the ids that its own code gives, but for special tokens that a text spells.

    There a typed ``[EOS]`` ends the sentence. Here it is three words like any others: ``[``, ``EOS`` and ``]``.
    Decoding leaves out what is special, but shows a word that is unknown as ``[UNK]``, which hkproj's code drops.
    """

    def __init__(self, text: str, inner: tokenizers.Tokenizer) -> None:
        super().__init__(inner, SPECIAL_TOKENS)
        self._text = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file as it was read, added tokens and all, atomically."""
        write_text(path, self._text)


def is_foreign(value: dict[str, Any]) -> bool:
    """Whether a ``tokenizers`` file is a word-level one with special tokens in brackets."""
    model = value.get("model")
    return (
        isinstance(model, dict)
        and model.get("type") == "WordLevel"
        and isinstance(model.get("vocab"), dict)
        and any(token in model["vocab"] for token in SPECIAL_TOKENS)
        and "<unk>" not in model["vocab"]
    )


def read_foreign(path: Path, text: str) -> ForeignWordTokenizer:
    """The tokenizer of a file for which :func:`is_foreign` holds. Raises :class:`BundleError`."""
    inner = parse_json(path, text)
    state = json.loads(inner.to_str())
    vocabulary = state["model"]["vocab"]
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    others = [token["content"] for token in state["added_tokens"] if token["content"] not in SPECIAL_TOKENS]
    flaw = None
    if missing:
        flaw = f"its vocabulary lacks {', '.join(missing)}"
    elif others:
        flaw = f"it has added tokens that are no special tokens ({', '.join(others)})"
    elif state["model"]["unk_token"] != SPECIAL_TOKENS[0]:
        flaw = f"its unknown token is {state['model']['unk_token']}, not {SPECIAL_TOKENS[0]}"
    # Matched in text they would let it spell the end of the sentence.
    state["added_tokens"] = []
    # What stands around the words is the business of batches, not of a vocabulary.
    state["truncation"] = state["padding"] = state["post_processor"] = None
    if flaw is None:
        tokenizer = ForeignWordTokenizer(text, tokenizers.Tokenizer.from_str(json.dumps(state)))
        flaw = tokenizer.flaw()
    if flaw:
        raise BundleError(f"{path}: {flaw}; use a word-level tokenizer as hkproj's code saves it.")
    return tokenizer
