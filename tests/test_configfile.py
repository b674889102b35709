"""Configuration files: YAML in, settings out, each error with its file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import ModelConfig, RunConfig
from dragoman.configfile import dump_config, load_config
from dragoman.errors import ConfigError, UsageError

BASE = """\
data:
  train: {src: a.en, tgt: a.de}
train:
  max_steps: 3
"""

Load = Callable[..., RunConfig]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str | bytes, *overrides: str) -> RunConfig:
        path = tmp_path / "config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path, list(overrides))

    return load


@pytest.fixture
def refusal(load: Load, tmp_path: Path) -> Callable[..., str]:
    def refusal(text: str | bytes, *overrides: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load(text, *overrides)
        assert "\n" not in str(caught.value)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return refusal


def test_the_smallest_file(load: Load, tmp_path: Path) -> None:
    config = load(BASE)
    assert (config.train.max_steps, config.data.dir, config.model) == (3, str(tmp_path), ModelConfig())


def test_line_and_nearest_name_of_an_unknown_key(refusal: Callable[..., str]) -> None:
    message = refusal(BASE + "  lrr: 0.1\nmodel: {}\n")
    assert message == 'config.yaml, line 5: unknown key "train.lrr" (did you mean "train.lr"?).'


def test_a_key_in_the_wrong_section(refusal: Callable[..., str]) -> None:
    message = refusal(BASE + "warmup_steps: 7\n")
    assert message == 'config.yaml, line 5: unknown key "warmup_steps" (did you mean "train.warmup_steps"?).'


def test_every_problem_is_named_with_its_own_line(refusal: Callable[..., str]) -> None:
    message = refusal(BASE + "  precision: fp8\nmodel:\n  n_heads: 7\ndecode: {beam_size: 0}\n")
    assert "config.yaml, line 5: \"train.precision\" is 'fp8'" in message
    assert 'config.yaml, line 6: "model": d_model 512 is not a multiple of n_heads 7' in message
    assert 'config.yaml, line 8: "decode.beam_size" is 0' in message
    assert message.endswith(".")


def test_settings_that_contradict_are_called_as_in_the_file(refusal: Callable[..., str]) -> None:
    message = refusal(BASE + "decode: {beam_size: 2, n_best: 3}\n")
    assert message == ("config.yaml, line 5: decode.n_best 3 needs a decode.beam_size of at least 3, and it is 2.")
    message = refusal(BASE + "decode:\n  min_length: 9\n", "decode.max_length=8")
    assert message.endswith("decode.min_length 9 is above decode.max_length 8.")


def test_a_missing_section(refusal: Callable[..., str]) -> None:
    assert refusal("train: {max_steps: 1}\n") == 'config.yaml, line 1: "data" is missing.'


def test_a_bad_item_of_a_list(refusal: Callable[..., str]) -> None:
    message = refusal("data:\n  train:\n    tgt: x\n    src:\n      - a\n      - {b: 1}\ntrain: {max_steps: 1}\n")
    assert message.startswith("config.yaml, line 6: \"data.train.src.1\" is {'b': 1}: input should be a valid string")


@pytest.mark.parametrize(
    "word", ["no", "on", "off", "yes", "y", "nb", "2024-01-01", "1:30", "0x", "1_000", ".inf", "="]
)
def test_words_that_stay_words(load: Load, word: str) -> None:
    assert load(f"{BASE}name: {word}\n").name == word


def test_no_is_a_language(load: Load) -> None:
    config = load("data: {src_lang: en, tgt_lang: no, train: {path: x.tsv}}\ntrain: {max_steps: 1}\n")
    assert config.data.tgt_lang == "no"


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), ("1E2", 100.0), (".5", 0.5), ("2.", 2.0), ("3", 3.0), ("+1.5e+1", 15.0)]
)
def test_numbers(load: Load, text: str, value: float) -> None:
    assert load(f"{BASE}  lr: {text}\n").train.lr == value


@pytest.mark.parametrize(("text", "value"), [("017", 17), ("0x10", 16), ("7", 7)])
def test_whole_numbers_are_decimal_unless_they_say_hexadecimal(load: Load, text: str, value: int) -> None:
    assert load(f"{BASE}  warmup_steps: {text}\n").train.warmup_steps == value


@pytest.mark.parametrize("word", ["null", "~", "", "Null"])
def test_nothing(load: Load, word: str) -> None:
    assert load(f"{BASE}  patience: {word}\n").train.patience is None


def test_a_key_twice(refusal: Callable[..., str]) -> None:
    message = refusal(BASE + "  lr: 1\n  lr: 2\n")
    assert message == 'config.yaml, line 6: the key "train.lr" stands twice; keep one.'


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: b: c\n", "config.yaml, line 1: not valid YAML ("),
        (BASE + "model: {\n", "config.yaml, line 6: not valid YAML ("),
        ("a: \x00\n", "config.yaml: not valid YAML ("),
        ("", "config.yaml: no keys in it"),
        ("# nothing\n", "config.yaml: no keys in it"),
        ("- a\n- b\n", "config.yaml: no keys in it"),
        ("x: &a [*a]\n", "config.yaml: nested without end, or too deep"),
        ("x: " + "[" * 5000, "config.yaml: nested without end, or too deep"),
        ("x: !!python/object/apply:os.getcwd []\n", "config.yaml, line 1:"),
        (BASE + "? [a, b]\n: 3\n", "config.yaml, line 5: a key is not a plain word"),
        (BASE.encode() + b"name: \xff\n", "config.yaml, line 5: not UTF-8"),
        (b"\xff\xfea\x00", "config.yaml, line 1: not UTF-8"),
    ],
)
def test_files_that_are_no_configuration(refusal: Callable[..., str], text: str | bytes, start: str) -> None:
    assert refusal(text).startswith(start)


def test_tags_are_never_carried_out(refusal: Callable[..., str], tmp_path: Path) -> None:
    target = tmp_path / "made"
    refusal(f"{BASE}name: !!python/object/apply:pathlib.Path.touch [{target}]\n")
    refusal(f"{BASE}name: !!python/object/apply:os.mkdir ['{target}']\n")
    assert not target.exists()


def test_byte_order_mark_and_carriage_returns(load: Load) -> None:
    assert load(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()).train.max_steps == 3


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^cannot read .*nope\.yaml: No such file or directory; give the path"):
        load_config(tmp_path / "nope.yaml")
    with pytest.raises(ConfigError, match=r": Is a directory; give the path"):
        load_config(tmp_path)


def test_overrides(load: Load) -> None:
    config = load(BASE, "train.lr=1e-4", "model.d_model=8", "model.n_heads=2", "data.train.src=[b, c]", "name=no")
    assert (config.train.lr, config.model.d_model, config.name) == (1e-4, 8, "no")
    assert config.data.train.src == ("b", "c")
    assert load(BASE, "train.max_epochs=2", "train.max_steps=").train.max_steps is None
    assert load(BASE, "name=a=b").name == "a=b"
    assert load(BASE + "tokenizer:\n", "tokenizer.kind=unigram").tokenizer.kind == "unigram"


def test_an_override_makes_another_kind_of_corpus(load: Load) -> None:
    assert load(BASE, "data.train={path: x.tsv}").data.train.path == ("x.tsv",)


def test_an_error_in_an_override_says_so(refusal: Callable[..., str]) -> None:
    assert refusal(BASE, "train.lrr=1") == 'on the command line: unknown key "train.lrr" (did you mean "train.lr"?).'
    assert refusal(BASE, "train.lr=fast").startswith("on the command line: \"train.lr\" is 'fast'")
    assert refusal(BASE, "train.lr=[").startswith('"train.lr=[", line 1: not valid YAML')
    message = refusal(BASE, "train.max_steps.x=1")
    assert message == '"train.max_steps.x=1": "train.max_steps" is 3 and has no keys; set it whole.'


@pytest.mark.parametrize("assignment", ["train.lr", "=1", "train..lr=1", ".=2", ""])
def test_an_override_that_is_none(load: Load, assignment: str) -> None:
    with pytest.raises(UsageError, match=r"is not KEY=VALUE; write for example train\.lr=0\.002\.$"):
        load(BASE, assignment)


def test_where_the_data_folder_is(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = "data: {dir: texts, train: {path: x.tsv}}\ntrain: {max_steps: 1}\n"
    assert load(text).data.dir == str(tmp_path / "texts")
    assert load(text, "data.dir=texts").data.dir == str(elsewhere / "texts")
    assert load(text, "data.dir=/texts").data.dir == "/texts"
    assert load(text, "data.dir=~/texts").data.dir == str(tmp_path / "home" / "texts")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "no",
        "1e-3",
        "12e4567",
        "null",
        "~",
        "",
        "true",
        "0x1f",
        "017",
        "- a",
        "a: b",
        "#x",
        "2024-01-01",
        "\u2028",
        "\x85",
    ]
)


@given(
    name=TEXT, revision=TEXT, lr=st.floats(1e-12, 1e3), steps=st.integers(1, 10**9), bias=st.sampled_from([True, "qv"])
)
def test_written_settings_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, name: str, revision: str, lr: float, steps: int, bias: bool | str
) -> None:
    config = RunConfig(
        data={
            "dir": "/data",
            "src_lang": name,
            "train": {"hub": name, "revision": revision, "src_field": "a", "tgt_field": revision},
            "valid": {"split": 5},
            "test": {"path": [name, "b.tsv"], "src_field": 3},
        },
        model={"attention_bias": bias},
        train={"lr": lr, "max_steps": steps, "betas": (0.5, 0.75)},
    )
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    dump_config(config, path)
    assert load_config(path) == config


@pytest.mark.parametrize(
    "name", ["\x85", "a\u2028b", "a\u2029", "a\n\nb ", "\r", "12e4567", "017", "no", "null", "", " a ", "ä: ö"]
)
def test_written_text_reads_back_equal(tmp_path: Path, name: str) -> None:
    config = RunConfig(data={"dir": "/", "src_lang": name, "train": {"path": "x.tsv"}}, train={"max_steps": 1})
    dump_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml").data.src_lang == name


def test_written_settings_name_every_setting(tmp_path: Path) -> None:
    config = RunConfig(data={"train": {"path": "x.tsv"}}, train={"max_steps": 1})
    dump_config(config, tmp_path / "config.yaml")
    text = (tmp_path / "config.yaml").read_text(encoding="utf-8")
    for section in (config.model, config.train, config.decode, config.tokenizer, config.data):
        for key in type(section).model_fields:
            assert f"\n  {key}:" in text


def test_an_unknown_section_given_on_the_command_line_is_said_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: x\ndata: {train: {src: a, tgt: b}}\ntrain: {max_steps: 1}\n")
    with pytest.raises(ConfigError, match=r'^on the command line: unknown key "valid"'):
        load_config(path, ["valid.x=1"])


def test_a_preset_is_a_set_of_defaults(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(BASE + "model: {preset: hkproj, d_model: 64}\n")
    model = load_config(path).model
    assert (model.norm, model.norm_eps, model.src_bos, model.d_model, model.d_ff) == ("std", 1e-6, True, 64, 2048)
    assert load_config(path, ["model.preset=hyunwoongko"]).model.norm_eps == 1e-12
    path.write_text(BASE + "model: {preset: hkprj}\n")
    with pytest.raises(ConfigError, match=rf'{path}, line \d+: no preset is called "hkprj" \(did you mean "hkproj"'):
        load_config(path)
    with pytest.raises(ConfigError, match="no preset is called"):
        load_config(path, ["model.preset=[1]"])


def test_rules_lower_case_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(BASE + "tokenizer: {kind: rules}\n")
    assert load_config(path).tokenizer.lowercase is True
    assert load_config(path, ["tokenizer.lowercase=false"]).tokenizer.lowercase is False
    dump_config(load_config(path, ["tokenizer.lowercase=false"]), tmp_path / "again.yaml")
    assert load_config(tmp_path / "again.yaml").tokenizer.lowercase is False
