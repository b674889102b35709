"""How Hugging Face's ``generate`` is told to search, and our :class:`DecodeConfig`, both ways.

``generate`` divides the sum of log-probabilities by n^length_penalty, n being the generated tokens, ``</s>``
included and the start token not: our norm "power". Its ``max_length`` and ``min_length`` count the start token too.
With ``early_stopping`` "never" it searches as ours does, to the best translation that the beam can still reach; with
true a search ends once ``num_beams`` have finished, our ``stop_after``; with false (the default) it ends once the best
open one, divided by the norm of its present length, is no better than these. Source:
``GenerationMixin._beam_search`` of transformers 5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dragoman.config import DecodeConfig
from dragoman.errors import ConfigError

# Settings that change what comes out and that ours has not, with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1.0,), "encoder_repetition_penalty": (1.0,), "encoder_no_repeat_ngram_size": (0,),
    "num_beam_groups": (1,), "diversity_penalty": (0.0,), "penalty_alpha": (0.0,), "guidance_scale": (1.0,),
    "forced_bos_token_id": (), "exponential_decay_length_penalty": (), "begin_suppress_tokens": ([],),
    "sequence_bias": ({}, []), "constraints": ([],), "force_words_ids": ([],), "stop_strings": ([], ""),
    "dola_layers": (), "watermarking_config": ({},),
}  # fmt: skip
# The same, but only where tokens are drawn.
_NEUTRAL_DRAWN: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,), "typical_p": (1.0,), "epsilon_cutoff": (0.0,), "eta_cutoff": (0.0,), "min_p": (0.0,),
    "top_h": (),
}  # fmt: skip

# Settings that are read, by what they have to be.
_COUNTS = (
    "num_beams", "num_return_sequences", "no_repeat_ngram_size", "max_length", "min_length", "max_new_tokens",
    "min_new_tokens", "top_k",
)  # fmt: skip
_NUMBERS = ("length_penalty", "temperature", "top_p")
_SWITCHES = ("do_sample", "renormalize_logits")
_LISTS = ("suppress_tokens", "bad_words_ids")
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(_COUNTS, ((int,), "a whole number")),
    **dict.fromkeys(_NUMBERS, ((int, float), "a number")),
    **dict.fromkeys(_SWITCHES, ((bool,), "true or false")),
    **dict.fromkeys(_LISTS, ((list,), "a list of tokens")),
    "early_stopping": ((bool, str), "true, false or never"),
}


def decode_settings(
    generation: Mapping[str, Any], never: Collection[int], pieces: Sequence[str]
) -> tuple[DecodeConfig, list[str], list[str]]:
    """Our settings for those of ``generate``, every reason why they cannot be had, and what still differs, in words.

    ``never`` are the ids that our search never produces (``<unk>``, padding, the start); ``pieces`` the target's.
    """
    given = {key: value for key, value in generation.items() if value is not None}
    odd = [key for key, (types, _) in _KINDS.items() if key in given and type(given[key]) not in types]
    mistyped = [f"{key} is {str(given.pop(key))[:40]}, and it should be {_KINDS[key][1]}" for key in odd]
    drawn = given.get("do_sample") is True
    neutral = {**_NEUTRAL, **(_NEUTRAL_DRAWN if drawn else {})}
    reasons = mistyped + [
        f"{key} is {given[key]}, and our search has no such setting"
        for key, values in neutral.items()
        if key in given and given[key] not in values
    ]
    banned = [word for name in ("suppress_tokens", "bad_words_ids") for word in _flat(given.get(name))]
    known = [word for word in banned if type(word) is int and 0 <= word < len(pieces)]
    if known != banned:
        reasons.append("bad_words_ids or suppress_tokens hold more than single tokens, and ours cannot forbid phrases")
    settings: dict[str, Any] = {"length_norm": "power", "beam_size": 1}
    settings["renormalize"] = bool(given.get("renormalize_logits"))
    settings["suppress"] = tuple(pieces[word] for word in dict.fromkeys(known) if word not in never)
    for ours, theirs in (
        ("beam_size", "num_beams"), ("length_penalty", "length_penalty"), ("n_best", "num_return_sequences"),
        ("no_repeat_ngram", "no_repeat_ngram_size"),
    ):  # fmt: skip
        if theirs in given:
            settings[ours] = given[theirs]
    if _is_beam(given, drawn) and given.get("early_stopping") is True:
        settings["stop_after"] = settings["beam_size"]
    settings |= _lengths(given)
    if drawn:
        settings |= {"sample": True, "top_k": given.get("top_k", 50)}
        settings |= {name: given[name] for name in ("temperature", "top_p") if name in given}
    try:
        return DecodeConfig(**settings), reasons, _differences(given, drawn)
    except ConfigError as error:
        return DecodeConfig(), [*reasons, f"the generation settings do not fit ({str(error).rstrip('.')})"], []


def _flat(words: Any) -> list[Any]:
    """The ids of single tokens; anything else (a phrase, something odd) as it is."""
    if not isinstance(words, list):
        return [] if words is None else [words]
    return [word[0] if isinstance(word, list) and len(word) == 1 else word for word in words]


def _lengths(given: Mapping[str, Any]) -> dict[str, Any]:
    """Limits in target tokens: theirs count the start token, unless they speak of new tokens."""
    lengths = {}
    for name in ("max", "min"):
        new, whole = given.get(f"{name}_new_tokens"), given.get(f"{name}_length")
        if isinstance(new, int):
            lengths[f"{name}_length"] = new
        elif isinstance(whole, int) and (name == "max" or whole > 0):
            lengths[f"{name}_length"] = whole - 1
    return lengths


def _is_beam(given: Mapping[str, Any], drawn: bool) -> bool:
    return not drawn and given.get("num_beams", 1) != 1


def _differences(given: Mapping[str, Any], drawn: bool) -> list[str]:
    """What still differs between their search and ours."""
    found = []
    if given.get("forced_eos_token_id") is not None:
        found.append(
            "`forced_eos_token_id`: a translation that reaches the limit is ended by force there, and not here"
        )
    if _is_beam(given, drawn) and given.get("early_stopping", False) is False:
        found.append(
            "`early_stopping`: their beam search may end before the best translation is certain; ours goes on until "
            'it is, as theirs with "never"'
        )
    return found


def _early(decode: DecodeConfig) -> bool | str:
    """``early_stopping``: true ends a search once ``num_beams`` have finished, "never" when none can still win."""
    if decode.beam_size == 1 or decode.sample:
        return False
    return True if 0 < decode.stop_after <= decode.beam_size else "never"


def generation_config(
    decode: DecodeConfig, longest: int, banned: Collection[int], ids: Mapping[str, int]
) -> dict[str, Any]:
    """``generation_config.json`` that makes ``generate`` search as ``decode`` says.

    ``longest``: the target tokens at most where ``decode`` gives a limit by the source's length, which theirs has
    not. ``banned``: the ids that never come. ``ids``: their names of the special ids. Their norm has no gnmt;
    "power" with its exponent takes its place.
    """
    limit = decode.max_length if decode.max_length is not None else longest
    settings: dict[str, Any] = {
        **ids,
        "num_beams": 1 if decode.sample else decode.beam_size,
        "num_return_sequences": decode.n_best,
        "length_penalty": 0.0 if decode.length_norm == "none" else decode.length_penalty,
        "early_stopping": _early(decode),
        "max_length": limit + 1,
        "bad_words_ids": [[index] for index in sorted(banned)],
        "renormalize_logits": decode.renormalize,
        "do_sample": decode.sample,
    }
    if decode.min_length:
        settings["min_new_tokens"] = decode.min_length
    if decode.no_repeat_ngram:
        settings["no_repeat_ngram_size"] = decode.no_repeat_ngram
    if decode.sample:
        settings |= {"temperature": decode.temperature, "top_k": decode.top_k, "top_p": decode.top_p}
    return settings


def lost_settings(decode: DecodeConfig) -> list[str]:
    """What of ``decode`` their ``generate`` cannot be told, in words."""
    lost, power = [], decode.length_penalty
    if decode.length_norm == "gnmt" and decode.beam_size > 1:
        lost.append(f"scores are divided by n^{power} there, and by ((5+n)/6)^{power} (gnmt) here")
    if decode.beam_size > 1 and not decode.sample and decode.stop_after not in (0, decode.beam_size):
        theirs = f"once {decode.beam_size} have finished" if _early(decode) is True else "when none can still win"
        lost.append(f"a search ends {theirs} there, and once {decode.stop_after} have finished here")
    if decode.max_length is None:
        ours = f"{decode.max_length_ratio} times the source's and {decode.max_length_extra} here"
        lost.append(f"a translation may have as many tokens as the model has positions there, and {ours}")
    if decode.min_length_ratio:
        lost.append(f"a translation has at least {decode.min_length_ratio} times the source's tokens here only")
    return lost
