"""How to run a folder for CTranslate2: its README, whose lines of Python work as they stand there.

They ask for as little as they can: the library that reads the tokenizers' files, and dragoman itself only where no
other library reads them as it does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dragoman.bundle import Bundle
from dragoman.config import DecodeConfig
from dragoman.interop.card import facts_of
from dragoman.text.foreign_words import ForeignWordTokenizer
from dragoman.text.json_tokenizer import JsonTokenizer
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import TokenizerPair

# A piece that names a language, which SentencePiece would cut up.
_LANGUAGE = re.compile(r">>.*<<")


@dataclass(frozen=True)
class _Way:
    """Lines of Python from texts to tokens and back: ``rows`` of ["A sentence."], and the text of ``tokens``."""

    needs: str
    load: str
    rows: str
    text: str


_OURS = _Way(
    "`pip install ctranslate2 dragoman`, whose own tokenizers these are",
    "from dragoman.text.tokenizer import TokenizerPair\n\n"
    'pair = TokenizerPair.load(".")\n'
    "source, target = pair.src.vocabulary(), {token: index for index, token in enumerate(pair.tgt.vocabulary())}",
    '[[source[index] for index in ids] for ids in pair.src.encode_batch(["A sentence."])]',
    "pair.tgt.decode(target[token] for token in tokens)",
)
_JSON = _Way(
    "`pip install ctranslate2 tokenizers`, and neither dragoman nor PyTorch",
    "from tokenizers import Tokenizer\n\n{files}",
    '[row.tokens for row in source.encode_batch(["A sentence."], add_special_tokens=False)]',
    "target.decode([target.token_to_id(token) for token in tokens])",
)
_SENTENCEPIECE = _Way(
    "`pip install ctranslate2 sentencepiece`, and neither dragoman nor PyTorch",
    "from sentencepiece import SentencePieceProcessor\n\n"
    'source = SentencePieceProcessor(model_file="source.spm")\n'
    'target = SentencePieceProcessor(model_file="target.spm")',
    'source.encode(["A sentence."], out_type=str)',
    'target.decode_pieces(tokens).replace("▁", " ").strip()',
)
_JOINT = 'source = target = Tokenizer.from_file("tokenizer.json")'
_SIDES = 'source, target = Tokenizer.from_file("src.tokenizer.json"), Tokenizer.from_file("tgt.tokenizer.json")'


def _way(pair: TokenizerPair) -> _Way:
    sides = (pair.src, pair.tgt)
    if all(isinstance(one, JsonTokenizer) and not isinstance(one, ForeignWordTokenizer) for one in sides):
        files = _JOINT if pair.src is pair.tgt else _SIDES
        return _Way(_JSON.needs, _JSON.load.format(files=files), _JSON.rows, _JSON.text)
    if all(isinstance(one, SentencePieceTokenizer) for one in sides):
        has_languages = any(_LANGUAGE.fullmatch(piece) for piece in pair.src.vocabulary())
        return _OURS if has_languages else _SENTENCEPIECE
    return _OURS


def search_options(decode: DecodeConfig) -> dict[str, Any]:
    """The options of ``translate_batch`` that come nearest to our search.

    The scores of ``length_norm`` none and power are ours (CTranslate2 divides by n^A too, n counting ``</s>`` where it
    is returned); it has no gnmt norm, so n^A stands in for it. Its search ends as soon as ``beam_size · patience``
    hypotheses have finished and ours when no open one can still win: greedy and without a norm that is the same, with
    one it is so where ``patience`` is large.
    """
    options: dict[str, Any] = {"beam_size": decode.beam_size, "min_decoding_length": decode.min_length}
    norm = 0.0 if decode.length_norm == "none" else decode.length_penalty
    if decode.max_length is not None:
        options["max_decoding_length"] = decode.max_length
    return {**options, "length_penalty": norm, "return_end_token": True, "no_repeat_ngram_size": decode.no_repeat_ngram}


def readme(bundle: Bundle, quantization: str, rows: int | None) -> str:
    """The README of a folder; ``rows`` is the length of its table of positions, None where they have no end."""
    config, tokens = bundle.model.config, bundle.tokenizers.tgt.vocabulary()
    never = sorted({config.tgt_pad_id, config.bos_id} - {config.eos_id})
    options = {
        **search_options(bundle.decode),
        "disable_unk": True,
        "suppress_sequences": [[tokens[index]] for index in never],
    }
    end = "" if rows is None else f" Its positions end after {rows} tokens, special ones included."
    decode, way = bundle.decode, _way(bundle.tokenizers)
    limit = f"A translation ends after {decode.max_length} tokens at the latest."
    if decode.max_length is None:
        limit = (
            f"dragoman ends a translation after {decode.max_length_ratio:g} times the source's tokens and "
            f"{decode.max_length_extra}; give max_decoding_length for a limit here (256 is CTranslate2's own)."
        )
    return f"""# {bundle.src_lang}-{bundle.tgt_lang} for CTranslate2

A Transformer written by dragoman for CTranslate2, its weights as {quantization}.{end} These lines, called in this
folder, translate with it; they need {way.needs}.

```python
import ctranslate2
{way.load}
translator = ctranslate2.Translator(".")
rows = {way.rows}
for result in translator.translate_batch(rows, **{options!r}):
    tokens = [token for token in result.hypotheses[0] if token != {tokens[config.eos_id]!r}]
    print({way.text})
```

CTranslate2 divides the log-probability by n^length_penalty; it has no GNMT norm. With a length penalty its search
ends when beam_size · patience hypotheses have finished, dragoman's when no open one can win any more. Suppressed
tokens lose their probability to the others, in dragoman to none. {limit}

{facts_of(bundle.card)}"""
