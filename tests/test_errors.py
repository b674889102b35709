"""Errors: their sentence, and settings in it by the names that their givers know."""

from __future__ import annotations

import pickle

import pytest

from dragoman.config import DecodeConfig
from dragoman.errors import ConfigError, DataError, DragomanError, Setting, UsageError, nearest, some_of
from dragoman.explain import joined


def test_a_sentence_in_parts() -> None:
    error = DataError("raise ", Setting("max_length"), " above ", "3", ".")
    assert str(error) == "raise max_length above 3."
    assert (str(DragomanError("plain.")), str(DragomanError())) == ("plain.", "")
    shown = ConfigError(Setting("beam_size", '"beam_size"'), " is 0.")
    assert str(shown) == '"beam_size" is 0.'


def test_settings_by_other_names() -> None:
    error = ConfigError(
        Setting("", "DecodeConfig: "), Setting("n_best", '"n_best"'), " and ", Setting("seed", '"seed"'), " of n_best."
    )
    # What is no part of its own is text, whatever it says; a setting without another name keeps its own.
    assert error.named({"": "", "n_best": "--n-best", "beam_size": "-b"}) == '--n-best and "seed" of n_best.'
    assert error.named({}) == str(error) == 'DecodeConfig: "n_best" and "seed" of n_best.'
    assert UsageError("n_best is bad.").named({"n_best": "--n-best"}) == "n_best is bad."


def test_names_survive_the_way_from_another_process() -> None:
    with pytest.raises(ConfigError) as caught:
        DecodeConfig(n_best=9)
    sent = pickle.loads(pickle.dumps(caught.value))
    assert str(sent) == str(caught.value) == "DecodeConfig: n_best 9 needs a beam_size of at least 9, and it is 5."
    assert sent.named({"": "", "n_best": "-n", "beam_size": "-b"}) == "-n 9 needs a -b of at least 9, and it is 5."


def test_every_problem_of_several_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        DecodeConfig(beam_size=0, top_p=2.0, zzzzzzz=1)
    options = {name: f"--{name.replace('_', '-')}" for name in DecodeConfig.model_fields}
    assert caught.value.named({"": "", **options}) == (
        "--beam-size is 0: input should be greater than or equal to 1; --top-p is 2.0: input should be less than or "
        'equal to 1; unknown key "zzzzzzz".'
    )
    assert joined([("a", "b"), ("c",)]) == ("a", "b", "; ", "c", ".")
    assert joined([]) == (".",)


def test_the_nearest_word() -> None:
    assert nearest("beamsize", ["beam_size", "n_best"]) == ' (did you mean "beam_size"?)'
    assert nearest("lrr", ["lr"], "train.") == ' (did you mean "train.lr"?)'
    assert nearest("zzz", ["beam_size"]) == ""


def test_a_sentence_does_not_grow_with_what_is_wrong() -> None:
    assert some_of(["a", "b"], 2) == "a, b"
    assert some_of(["a", "b", "c"], 2) == "a, b, and 1 more"
    assert some_of([str(number) for number in range(2000)], 1, "; ") == "0; and 1,999 more"
    assert some_of([], 3) == ""
