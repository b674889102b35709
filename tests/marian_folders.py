"""Marian folders for tests: random models with SentencePiece models trained on a few lines, theirs and ours."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, MarianMTModel, MarianTokenizer

from bundles import LINES, SRC_TEXT, TGT_TEXT
from dragoman.bundle import Bundle
from dragoman.config import DecodeConfig, ModelConfig, TokenizerConfig
from dragoman.model.transformer import Transformer
from dragoman.text.sentencepiece import SentencePieceTokenizer, train_sentencepiece
from dragoman.text.tokenizer import TokenizerPair
from marian_models import live

TEXTS = [
    *SRC_TEXT, *LINES[:5], "The wind blows.", "Our key paints the ferry.", "nobody", "found her at nine",
    "Empty fields, empty harbour.", "A cold green key leaves the fence.", "Ärger über ein Ü: 北京 🙂",
]  # fmt: skip

THEIRS: dict[str, dict[str, Any]] = {
    "opus-mt": {},
    "relu, not scaled": {"activation_function": "relu", "scale_embedding": False, "encoder_layers": 1},
    "separate vocabularies": {"separate": True},
    "separate, nothing tied": {"separate": True, "tie_word_embeddings": False, "activation_function": "gelu"},
}
OURS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "all tied": {"tie_embeddings": "all", "feed_forward": "silu"},
    "two vocabularies": {"joint": False, "tie_embeddings": "decoder"},
    "no biases": {"attention_bias": False, "feed_forward_bias": False, "output_bias": False, "n_kv_heads": 1},
}


@cache
def trained(text: tuple[str, ...]) -> SentencePieceTokenizer:
    """A SentencePiece model of ours: <unk> <pad> <s> </s>, bytes, then pieces."""
    return train_sentencepiece(TokenizerConfig(kind="sentencepiece", vocab_size=400), list(text))


def opus_vocabulary(*tokenizers: SentencePieceTokenizer, pad_last: bool = True) -> dict[str, int]:
    """The pieces numbered as OPUS-MT does: </s> 0, <unk> 1, then the pieces, <pad> last (or 2)."""
    pieces = dict.fromkeys(piece for tokenizer in tokenizers for piece in tokenizer.vocabulary())
    order = ["</s>", "<unk>", *(piece for piece in pieces if piece not in ("</s>", "<unk>", "<pad>", "<s>"))]
    order.insert(len(order) if pad_last else 2, "<pad>")
    return {piece: index for index, piece in enumerate(order)}


@torch.no_grad()
def sharpen(model: nn.Module, output: Tensor, eos_id: int) -> None:
    """Random weights whose translations depend on the source and have many lengths, none nearly as good as another.

    Gains near one and small biases let each state differ; </s> has a logit that varies more than the others'.
    """
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            parameter.normal_(std=0.1 if parameter.ndim == 1 else 1.5 / math.sqrt(parameter.shape[1]))
            if "norm.weight" in name:
                parameter.add_(1.0)
    output.mul_(1.5)
    output[eos_id].mul_(5.0)


def their_folder(
    folder: Path, separate: bool = False, seed: int = 3, generation: dict[str, Any] | None = None, **changes: Any
) -> None:
    """A folder as transformers saves it."""
    src, tgt = trained(tuple(SRC_TEXT)), trained(tuple(TGT_TEXT))
    vocabularies = (
        [opus_vocabulary(each, pad_last=False) for each in (src, tgt)] if separate else [opus_vocabulary(src, tgt)] * 2
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.spm").write_bytes(src.model)
    (folder / "target.spm").write_bytes(tgt.model)
    names = ["vocab.json", "target_vocab.json"][: 1 + separate]
    for name, vocabulary in zip(names, vocabularies, strict=False):
        (folder / name).write_text(json.dumps(vocabulary), encoding="utf-8")
    told = {"separate_vocabs": separate, "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    pad = vocabularies[0]["<pad>"]
    shape: dict[str, Any] = {
        "vocab_size": len(vocabularies[0]), "decoder_vocab_size": len(vocabularies[1]), "pad_token_id": pad,
        "decoder_start_token_id": pad, "max_position_embeddings": 128, "d_model": 24,
        "share_encoder_decoder_embeddings": not separate,
    }  # fmt: skip
    model = live(torch.float32, seed=seed, **{**shape, **changes})
    sharpen(model, model.lm_head.weight, 0)
    if generation is not None:
        model.generation_config = GenerationConfig(**generation)
    model.save_pretrained(folder)


def our_bundle(joint: bool = True, seed: int = 4, decode: DecodeConfig | None = None, **changes: Any) -> Bundle:
    """A random bundle with SentencePiece tokenizers as our training makes them."""
    if joint:
        both = trained((*SRC_TEXT, *TGT_TEXT))
        pair = TokenizerPair(both, both)
    else:
        pair = TokenizerPair(trained(tuple(SRC_TEXT)), trained(tuple(TGT_TEXT)))
    shape: dict[str, Any] = {
        "src_vocab_size": pair.src.vocab_size, "tgt_vocab_size": pair.tgt.vocab_size, "d_model": 24, "n_heads": 3,
        "d_ff": 20, "n_encoder_layers": 2, "n_decoder_layers": 2, "max_length": 128, "norm_first": False,
        "final_norm": False,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = Transformer(ModelConfig(**{**shape, **changes})).eval()
    sharpen(model, model.output.weight, 3)
    decode = decode or DecodeConfig(beam_size=4, length_norm="power", length_penalty=0.7, max_length=20)
    return Bundle(model, pair, decode, "en", "de", "# A card\n")


def their_tokenizer(folder: Path) -> MarianTokenizer:
    tokenizer: MarianTokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
    return tokenizer


def load_theirs(folder: Path) -> MarianMTModel:
    """Their model; a key that is missing, unexpected or of another shape fails."""
    model, said = MarianMTModel.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    assert not any(said.values()), said
    loaded: MarianMTModel = model.float().eval()
    return loaded


def their_translations(folder: Path, **settings: Any) -> tuple[list[list[int]], list[float], list[str]]:
    """Target ids (without start and padding), scores (beam only) and texts that ``generate`` gives."""
    model, tokenizer = load_theirs(folder), their_tokenizer(folder)
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    found = model.generate(**batch, return_dict_in_generate=True, output_scores=True, **settings)
    pad, eos = model.config.pad_token_id, model.config.eos_token_id
    ids = []
    for row in found.sequences[:, 1:].tolist():
        end = row.index(eos) + 1 if eos in row else len(row)
        ids.append([token for token in row[:end] if token != pad])
    scores = found.sequences_scores.tolist() if found.get("sequences_scores") is not None else []
    return ids, scores, tokenizer.decode(found.sequences, skip_special_tokens=True)
