"""Settings: what is accepted, what is refused, and what the refusal says."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dragoman.config import (
    DataConfig,
    DecodeConfig,
    HeldOutCorpus,
    HubCorpus,
    ModelConfig,
    RunConfig,
    TableCorpus,
    TextCorpus,
    TokenizerConfig,
    TrainConfig,
)
from dragoman.errors import ConfigError, DataError, DragomanError, UsageError, nearest
from dragoman.fields import Config
from dragoman.presets import PRESETS

SHAPE = {"src_vocab_size": 50, "tgt_vocab_size": 50, "d_model": 16, "n_heads": 4}


def refusal(make: Any, **values: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make(**values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (ModelConfig, {"d_modle": 3}, 'ModelConfig: unknown key "d_modle" (did you mean "d_model"?).'),
        (ModelConfig, {"zzzzzzz": 3}, 'ModelConfig: unknown key "zzzzzzz".'),
        (ModelConfig, {"d_model": 10, "n_heads": 4}, "ModelConfig: d_model 10 is not a multiple of n_heads 4."),
        (ModelConfig, {**SHAPE, "n_kv_heads": 3}, "ModelConfig: n_heads 4 is not a multiple of n_kv_heads 3."),
        (
            ModelConfig,
            {"d_model": 12, "n_heads": 4, "positions": "rotary"},
            "ModelConfig: rotary positions need an even head width, and d_model / n_heads is 3.",
        ),
        (
            ModelConfig,
            {**SHAPE, "src_vocab_size": 40, "tie_embeddings": "all"},
            "ModelConfig: tie_embeddings: all needs one joint vocabulary, and the sizes are 40 and 50.",
        ),
        (
            ModelConfig,
            {**SHAPE, "tgt_pad_id": 50},
            "ModelConfig: tgt_pad_id 50 lies outside the target vocabulary of 50.",
        ),
        (ModelConfig, {**SHAPE, "bos_id": 51}, "ModelConfig: bos_id 51 lies outside the target vocabulary of 50."),
        (ModelConfig, {**SHAPE, "eos_id": 52}, "ModelConfig: eos_id 52 lies outside the target vocabulary of 50."),
        (
            ModelConfig,
            {**SHAPE, "src_pad_id": 50},
            "ModelConfig: src_pad_id 50 lies outside the source vocabulary of 50.",
        ),
        (
            ModelConfig,
            {"attention_bias": "vk"},
            "ModelConfig: \"attention_bias\" is 'vk': input should be a valid boolean, unable to interpret input, "
            "or string should match pattern '^q?k?v?o?$'.",
        ),
        (ModelConfig, {"dropout": 1.0}, 'ModelConfig: "dropout" is 1.0: input should be less than 1.'),
        (ModelConfig, {"n_heads": 0}, 'ModelConfig: "n_heads" is 0: input should be greater than or equal to 1.'),
        (TrainConfig, {}, "TrainConfig: training never ends: set max_steps, max_epochs or max_minutes."),
        (
            TrainConfig,
            {"max_steps": 1, "lr": 0.0, "max_step": 2},
            'TrainConfig: "lr" is 0.0: input should be greater than 0; '
            'unknown key "max_step" (did you mean "max_steps"?).',
        ),
        (
            TrainConfig,
            {"max_steps": 1, "lr": float("inf")},
            'TrainConfig: "lr" is inf: input should be a finite number.',
        ),
        (
            TrainConfig,
            {"max_steps": 1, "device": "gpu"},
            "TrainConfig: \"device\" is 'gpu': input should be 'auto', 'cpu', 'cuda' or 'mps'.",
        ),
        (
            DecodeConfig,
            {"n_best": 6},
            "DecodeConfig: n_best 6 needs a beam_size of at least 6, and it is 5.",
        ),
        (DecodeConfig, {"min_length": 9, "max_length": 8}, "DecodeConfig: min_length 9 is above max_length 8."),
        (
            DecodeConfig,
            {"length_penalty": float("nan")},
            'DecodeConfig: "length_penalty" is nan: input should be a finite number.',
        ),
        (DecodeConfig, {"max_length_ratio": 1e308}, None),
        (DecodeConfig, {"min_length_ratio": 1001, "max_length_ratio": 1000}, None),
        (DecodeConfig, {"sample": True, "n_best": 1_000_000_000}, None),
        (TokenizerConfig, {"kind": "bep"}, None),
        (HubCorpus, {"hub": "x"}, 'HubCorpus: "src_field" is missing; "tgt_field" is missing.'),
        (HeldOutCorpus, {"split": 0}, 'HeldOutCorpus: "split" is 0: input should be greater than or equal to 1.'),
        (TextCorpus, {"src": "a", "tgt": []}, None),
        (
            DataConfig,
            {"train": "a.tsv"},
            "DataConfig: \"train\" is 'a.tsv': it should have the keys src and tgt, or path, "
            "or hub and src_field and tgt_field.",
        ),
        (
            DataConfig,
            {"train": {"src": "a", "tgt": "b"}, "test": {"split": 3}},
            "DataConfig: \"test\" is {'split': 3}: it should have the keys src and tgt, or path, "
            "or hub and src_field and tgt_field.",
        ),
        (
            DataConfig,
            {"train": {"path": "a", "scr_field": 0}},
            'DataConfig: unknown key "train.scr_field" (did you mean "train.src_field"?).',
        ),
        (
            DataConfig,
            {"train": {"path": "a", "src_field": -1}},
            'DataConfig: "train.src_field" is -1: input should be a valid string, '
            "or input should be greater than or equal to 0.",
        ),
        (
            RunConfig,
            {"data": {"train": {"src": "a", "tgt": "b"}}, "train": {"max_steps": 1}, "max_length": 3},
            'RunConfig: unknown key "max_length" '
            '(did you mean "data.max_length" or "model.max_length" or "decode.max_length"?).',
        ),
    ],
)
def test_refusals(make: Any, values: dict[str, Any], message: str | None) -> None:
    text = refusal(make, **values)
    assert message is None or text == message
    assert "\n" not in text
    assert "pydantic" not in text


CONFIGS = [ModelConfig, TokenizerConfig, TextCorpus, TableCorpus, HubCorpus, HeldOutCorpus, DataConfig, TrainConfig]


def kinds(annotation: Any) -> set[type]:
    """The plain types that a field may hold."""
    inner = get_args(annotation)
    return set().union(*map(kinds, inner)) if inner else {annotation} & {bool, int, float}


@pytest.mark.parametrize("make", [*CONFIGS, DecodeConfig, RunConfig])
def test_true_is_no_number(make: type[Config]) -> None:
    """Python takes it for 1, in every field of a number."""
    numbers = [name for name, field in make.model_fields.items() if kinds(field.annotation) & {int, float}]
    numbers = [name for name in numbers if bool not in kinds(make.model_fields[name].annotation)]
    for name in numbers:
        for value in (True, False):
            given = (value, 0.9) if name == "betas" else value
            place = f"{name}.0" if name == "betas" else name
            assert f'"{place}" is {value}: input should be a' in refusal(make, **{name: given})
    assert bool(numbers) == (make is not RunConfig)


def test_a_switch_is_still_one() -> None:
    assert DecodeConfig(sample=True).sample
    assert ModelConfig(attention_bias=False).biases == ""
    assert TableCorpus(path="a", header=True).header
    assert refusal(TableCorpus, path="a", src_field=True) == (
        'TableCorpus: "src_field" is True: input should be a valid string, or input should be a number.'
    )


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(refusal(ModelConfig, d_model="x" * 500)) < 200


def test_nearest() -> None:
    assert nearest("blue", ["bleu", "chrf"]) == ' (did you mean "bleu"?)'
    assert nearest("blue", ["bleu"], "metrics.") == ' (did you mean "metrics.bleu"?)'
    assert nearest("q", ["bleu", "chrf"]) == ""


def test_exit_codes_and_http_status() -> None:
    assert (DragomanError.exit_code, ConfigError.exit_code, DataError.exit_code, UsageError.exit_code) == (1, 1, 1, 2)
    assert DragomanError.http_status == 400


def test_frozen() -> None:
    config = ModelConfig()
    with pytest.raises(ValidationError, match="frozen"):
        config.d_model = 3


def test_changed_checks_again_and_keeps_the_rest() -> None:
    config = ModelConfig(**SHAPE)
    assert config.changed(d_ff=7) == ModelConfig(**SHAPE, d_ff=7)
    assert config.changed(d_ff=7).model_fields_set == {*SHAPE, "d_ff"}
    assert config.d_ff == 2048
    assert "n_heads" in refusal(config.changed, n_heads=5)
    nested = RunConfig(data={"train": {"path": "x.tsv"}}, train={"max_steps": 1}).changed(name="other")
    assert (nested.name, nested.data.train) == ("other", TableCorpus(path="x.tsv"))


def test_resolved_defaults() -> None:
    config = ModelConfig(d_model=24, n_heads=6, dropout=0.3, attention_dropout=0.0)
    assert (config.d_head, config.kv_heads, config.changed(n_kv_heads=2).kv_heads) == (4, 6, 2)
    assert [config.dropout_of(part) for part in ("attention", "activation", "embedding")] == [0.0, 0.3, 0.3]


@pytest.mark.parametrize(("bias", "letters"), [(True, "qkvo"), (False, ""), ("qv", "qv"), ("", "")])
def test_biases(bias: bool | str, letters: str) -> None:
    assert ModelConfig(attention_bias=bias).biases == letters


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: str) -> None:
    config = ModelConfig.preset(name, src_vocab_size=9, tgt_vocab_size=9, dropout=0.25)
    assert (config.dropout, config.src_vocab_size) == (0.25, 9)
    assert config.d_model == PRESETS[name]["d_model"]


def test_the_papers_preset() -> None:
    config = ModelConfig.preset("transformer-base")
    assert (config.d_model, config.n_heads, config.d_ff, config.n_encoder_layers, config.dropout) == (
        512,
        8,
        2048,
        6,
        0.1,
    )
    assert not config.norm_first
    assert not config.final_norm


def test_an_unknown_preset() -> None:
    with pytest.raises(
        ConfigError, match=r'no preset is called "transformer-bas" \(did you mean "transformer-base"\?\)'
    ):
        ModelConfig.preset("transformer-bas")


@pytest.mark.parametrize(
    ("value", "corpus"),
    [
        ({"src": "a", "tgt": ["b", "c"]}, TextCorpus(src=("a",), tgt=("b", "c"))),
        ({"path": "a.tsv"}, TableCorpus(path=("a.tsv",), src_field=0, tgt_field=1)),
        ({"path": ["a", "b"], "src_field": "translation.en", "tgt_field": 3}, None),
        ({"hub": "opus_books", "src_field": "x.en", "tgt_field": "x.it"}, None),
        ({"split": 7}, HeldOutCorpus(split=7)),
        ({"path": "folder", "split": "train"}, None),
    ],
)
def test_the_kind_of_corpus_follows_from_its_keys(value: dict[str, Any], corpus: Any) -> None:
    config = DataConfig(train={"src": "a", "tgt": "b"}, valid=value)
    assert corpus is None or config.valid == corpus
    assert config.changed(max_ratio=2.0).valid == config.valid


@given(st.floats(0.0, 4.0), st.integers(0, 50), st.integers(1, 200))
def test_the_length_limit_of_a_translation(ratio: float, extra: int, source: int) -> None:
    config = DecodeConfig(max_length_ratio=ratio, max_length_extra=extra)
    limit = config.limit(source)
    assert limit >= 1
    exact = Fraction(ratio * source) + extra
    assert limit == 1 or exact - 1 < limit <= exact
    assert config.changed(max_length=17).limit(source) == 17
    # A minimum goes before it, with room for the end behind.
    assert config.changed(min_length=30).limit(source) == max(limit, 31)
    assert config.changed(min_length=17, max_length=17).limit(source) == 17


@pytest.mark.parametrize("name", ["max_length", "min_length", "max_length_extra"])
def test_a_translation_that_never_ends_cannot_be_asked_for(name: str) -> None:
    assert getattr(DecodeConfig(**{name: 100_000}), name) == 100_000
    with pytest.raises(ConfigError, match=f'"{name}" is 100001: input should be less than or equal to 100000'):
        DecodeConfig(**{name: 100_001})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "/abs", "a\0b", "a\nb", "a\\b"])
def test_a_run_s_name_is_a_file_name(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        RunConfig(name=name, data={"train": {"src": "a", "tgt": "b"}}, train={"max_steps": 1})


@pytest.mark.parametrize("name", ["x", "multi30k-en-de", "v1.2", ".hidden", "mit Leerzeichen", "日本"])
def test_names_that_will_do(name: str) -> None:
    assert RunConfig(name=name, data={"train": {"src": "a", "tgt": "b"}}, train={"max_steps": 1}).name == name


@pytest.mark.parametrize("change", [{"seed": -1}, {"seed": 10**23}, {"threads": 0}, {"threads": 1_000_000}])
def test_numbers_that_no_machine_has(change: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        TrainConfig(max_steps=1, **change)
