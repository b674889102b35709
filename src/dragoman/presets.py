"""Published shapes by name, each with its source; :meth:`dragoman.ModelConfig.preset` reads this table."""

from __future__ import annotations

from typing import Any

# "Attention Is All You Need" (Vaswani et al. 2017), section 3 and table 3: post-norm, no final norm, shared
# embeddings scaled by sqrt(d_model) (3.4), dropout on sub-layer outputs and on embedding sums only (5.4). Its
# formulas have biases in the feed-forward part alone (3.2.2, 3.3).
_PAPER: dict[str, Any] = {
    "norm_first": False,
    "final_norm": False,
    "tie_embeddings": "all",
    "attention_bias": False,
    "output_bias": False,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}

# The sizes of the paper's base model, which every implementation below takes as its default.
_BASE: dict[str, Any] = {
    "d_model": 512, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 2048, "dropout": 0.1,
}  # fmt: skip

# What a loop of xavier_uniform_ over all parameters of more than one dimension leaves: embeddings like the
# matrices, biases as PyTorch drew them.
_XAVIER: dict[str, Any] = {"init": "xavier", "embedding_init": "like_init", "bias_init": "torch"}

# github.com/hkproj/pytorch-transformer and its article: pre-norm, n-1 deviation with eps outside, Xavier everywhere.
_HKPROJ: dict[str, Any] = {**_BASE, **_XAVIER, "norm_eps": 1e-6, "max_length": 350, "src_bos": True}

PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al., ACL 2021: the Transformer-Tiny that small corpora such as Multi30k want.
    "transformer-tiny": {
        "d_model": 128, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4, "d_ff": 256,
        "dropout": 0.3, "tie_embeddings": "all",
    },
    # Half of base in every direction; the usual choice for a few hundred thousand pairs.
    "transformer-small": {
        "d_model": 256, "n_heads": 4, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 1024,
        "dropout": 0.1, "tie_embeddings": "all",
    },
    "transformer-base": {
        "d_model": 512, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 2048,
        "dropout": 0.1, **_PAPER,
    },
    "transformer-big": {
        "d_model": 1024, "n_heads": 16, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 4096,
        "dropout": 0.3, **_PAPER,
    },
    # The article "Transformer in PyTorch, annotated": post-norm, no dropout, initial values as PyTorch draws them.
    "valid_len": {
        **_BASE, "norm_first": False, "final_norm": False, "attention_bias": False, "dropout": 0.0,
        "init": "torch", "embedding_init": "like_init",
    },
    # github.com/hyunwoongko/transformer: post-norm, embeddings not scaled, eps 1e-12, Kaiming everywhere.
    "hyunwoongko": {
        **_BASE, "norm_first": False, "final_norm": False, "norm_eps": 1e-12, "scale_embeddings": False,
        "attention_dropout": 0.0, "init": "kaiming", "embedding_init": "like_init", "max_length": 256, "src_bos": True,
    },
    # labml_nn.transformers: pre-norm, no dropout on the embeddings, Xavier everywhere.
    "labml": {
        **_BASE, **_XAVIER, "embedding_dropout": 0.0, "max_length": 5000,
    },
    # The article and the repository of May 2023; of August 2023; since September 2023.
    "hkproj-article": {**_HKPROJ, "norm": "std_scalar"},
    "hkproj-no-bias": {**_HKPROJ, "norm": "std_scalar", "attention_bias": False},
    "hkproj": {**_HKPROJ, "norm": "std", "attention_bias": False},
    # The Annotated Transformer (Rush et al. 2018, 2022): its vocabulary begins <s>, </s>, <blank>, <unk>.
    "annotated": {
        **_BASE, **_XAVIER, "norm": "std", "norm_eps": 1e-6, "max_length": 5000,
        "src_pad_id": 2, "tgt_pad_id": 2, "bos_id": 0, "eos_id": 1, "src_bos": True,
    },
    # torch.nn.Transformer with its defaults: a final norm even after post-norm layers.
    "torch": {
        **_BASE, "norm_first": False, "init": "xavier", "embedding_init": "like_init", "max_length": 5000,
        "src_bos": True,
    },
    # Hugging Face Marian with OPUS-MT's settings: <unk> is 1, </s> is 0, and decoding starts from the padding id
    # (the last of the vocabulary there; set src_pad_id, tgt_pad_id and bos_id to it).
    "marian": {
        **_BASE, "norm_first": False, "final_norm": False, "feed_forward": "silu", "positions": "sinusoidal_halves",
        "tie_embeddings": "all", "attention_dropout": 0.0, "activation_dropout": 0.0, "max_length": 512,
        "eos_id": 0, "src_pad_id": 2, "tgt_pad_id": 2, "bos_id": 2, "init": "marian", "embedding_init": "like_init",
    },
}  # fmt: skip
