"""CTranslate2 computes what we compute: forced scores and translations of the live library, variant by variant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch

from bundles import LINES, make_bundle
from dragoman.bundle import Bundle
from dragoman.config import DecodeConfig
from dragoman.decoding import score_targets, search
from dragoman.errors import ConversionError
from dragoman.interop.ctranslate2 import check_folder, plan, save_folder
from dragoman.interop.ctranslate2_readme import search_options
from dragoman.text.batching import pad_sources
from model_variants import BASE, VARIANTS
from tolerances import FLOAT32, INT8, LOGPROB, SAME_INT8, SHORT_WEIGHTS

# Everything but the norms over the n-1 deviation, which CTranslate2 does not compute.
SUPPORTED = sorted(name for name, changes in VARIANTS.items() if not changes.get("norm", "").startswith("std"))
MORE: dict[str, dict[str, Any]] = {
    "no decoder layers": {"n_decoder_layers": 0, "norm_first": False},
    "no layers at all": {"n_encoder_layers": 0, "n_decoder_layers": 0, "norm": "rms", "feed_forward": "bilinear"},
    "no encoder layers, post-norm": {"n_encoder_layers": 0, "norm_first": False, "final_norm": False},
    "no encoder layers, rotary": {"n_encoder_layers": 0, "positions": "rotary", "feed_forward": "swiglu"},
    "source between both markers": {"src_bos": True, "src_eos": True},
    "bare source": {"src_eos": False},
    "bilinear without biases": {"feed_forward": "bilinear", "feed_forward_bias": False, "norm_first": False},
    "unscaled": {"scale_embeddings": False, "tie_embeddings": "all"},
    "starts from the padding": {"bos_id": 1, "norm_first": False, "positions": "sinusoidal_halves"},
    "a tiny eps": {"norm_eps": 1e-12},
    "a large eps": {"norm_eps": 0.5, "norm_first": False},
    "a large eps, rms": {"norm_eps": 0.5, "norm": "rms"},
}  # fmt: skip
# Target tokens of a translation; also of a source, so that learned positions have room.
LIMIT = 12


def sharp_bundle(seed: int = 7, joint: bool = True, **changes: Any) -> Bundle:
    """A model whose every weight is random, norms and biases too, and whose choices are far from ties."""
    shape = {name: value for name, value in BASE.items() if not name.endswith("_vocab_size")}
    bundle = make_bundle(joint, **{**shape, "max_length": 40, **changes})
    torch.manual_seed(seed)
    model = bundle.model
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                # As large as to let the source decide what comes.
                parameter.normal_(std=(2.0 if "attention" in name else 1.0) * parameter.shape[1] ** -0.5)
            else:
                parameter.normal_(float(name.endswith("norm.weight")), 0.3)
        for _, buffer in model.named_buffers():
            buffer.normal_()
        tied = model.config.tie_embeddings != "none"
        if not tied:
            # What no norm has tamed is large already.
            tamed = model.config.final_norm or not model.config.norm_first
            model.output.weight.mul_(2.0 if tamed else 0.2)
        if model.output.bias is not None:
            model.output.bias[model.config.eos_id] += 0.5 if tied else 3.0
    return bundle


def load(folder: Path, compute_type: str = "float32") -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=1
    )


def saved(bundle: Bundle, folder: Path, quantization: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    save_folder(bundle, folder, quantization)
    return folder


def sources(bundle: Bundle) -> list[list[int]]:
    return [ids[:LIMIT] for ids in bundle.tokenizers.src.encode_batch(LINES)]


def tokens(vocabulary: list[str], rows: list[list[int]]) -> list[list[str]]:
    return [[vocabulary[index] for index in row] for row in rows]


def our_start(bundle: Bundle) -> Any:
    src, mask = pad_sources(sources(bundle), bundle.model.config)
    with torch.no_grad():
        return bundle.model.start(bundle.model.encode(src, mask), mask)


def special(bundle: Bundle) -> dict[str, int]:
    return {"bos_id": bundle.model.config.bos_id, "eos_id": bundle.model.config.eos_id}


def our_translations(bundle: Bundle, decode: DecodeConfig) -> list[list[int]]:
    n = len(LINES)
    found = search(bundle.model.step, our_start(bundle), n, decode, limits=[LIMIT] * n, **special(bundle))
    return [hypotheses[0].tokens for hypotheses in found]


def their_translations(
    bundle: Bundle, translator: ctranslate2.Translator, decode: DecodeConfig, **options: Any
) -> list[list[int]]:
    ids = {token: index for index, token in enumerate(bundle.tokenizers.tgt.vocabulary())}
    results = translator.translate_batch(
        tokens(bundle.tokenizers.src.vocabulary(), sources(bundle)),
        max_decoding_length=LIMIT,
        **{**search_options(decode), **options},
    )
    return [[ids[token] for token in result.hypotheses[0]] for result in results]


def their_scores(bundle: Bundle, translator: ctranslate2.Translator, targets: list[list[int]]) -> list[list[float]]:
    """Of each target and its ``</s>``."""
    src, tgt = bundle.tokenizers.src.vocabulary(), bundle.tokenizers.tgt.vocabulary()
    results = translator.score_batch(tokens(src, sources(bundle)), tokens(tgt, targets))
    return [list(result.log_probs) for result in results]


def our_scores(bundle: Bundle, targets: list[list[int]]) -> list[list[float]]:
    """Computed step by step, with the cache."""
    whole = [[*target, bundle.model.config.eos_id] for target in targets]
    found = score_targets(bundle.model.step, our_start(bundle), whole, DecodeConfig(), **special(bundle))
    return [hypothesis.token_logprobs for hypothesis in found]


def targets(bundle: Bundle) -> list[list[int]]:
    return [ids[: LIMIT - 1 - place] for place, ids in enumerate(bundle.tokenizers.tgt.encode_batch(LINES))]


def largest(ours: list[list[float]], theirs: list[list[float]]) -> float:
    assert [len(row) for row in ours] == [len(row) for row in theirs]
    return max(abs(a - b) for row, other in zip(ours, theirs, strict=True) for a, b in zip(row, other, strict=True))


@pytest.mark.parametrize("name", [*SUPPORTED, *MORE])
def test_every_supported_variant_gives_our_scores_and_translations(name: str, tmp_path: Path) -> None:
    bundle = sharp_bundle(**(MORE[name] if name in MORE else VARIANTS[name]))
    assert plan(bundle.model.config).refused == ()
    translator = load(saved(bundle, tmp_path / "model"))
    forced = targets(bundle)
    assert largest(our_scores(bundle, forced), their_scores(bundle, translator, forced)) < FLOAT32
    seen = set()
    for decode in (DecodeConfig(beam_size=1), DecodeConfig(beam_size=3, length_norm="none")):
        ours = our_translations(bundle, decode)
        assert ours == their_translations(bundle, translator, decode)
        seen |= {tuple(row) for row in ours}
    # Without a decoder layer nothing of the source is seen.
    assert len(seen) > 1 or not bundle.model.config.n_decoder_layers
    assert check_folder(bundle, tmp_path / "model") < FLOAT32


def test_separate_vocabularies(tmp_path: Path) -> None:
    bundle = sharp_bundle(joint=False)
    folder = saved(bundle, tmp_path / "model")
    assert (folder / "source_vocabulary.json").exists()
    assert not (folder / "shared_vocabulary.json").exists()
    greedy = DecodeConfig(beam_size=1)
    assert our_translations(bundle, greedy) == their_translations(bundle, load(folder), greedy)
    assert check_folder(bundle, folder) < FLOAT32


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel", "rules", "sentencepiece"])
def test_every_kind_of_tokenizer(kind: str, tmp_path: Path) -> None:
    bundle = make_bundle(kind=kind)
    assert check_folder(bundle, saved(bundle, tmp_path / "model")) < FLOAT32


def test_the_norm_eps_is_the_models_own(tmp_path: Path) -> None:
    """Where features vary by no more than 1e-3, an eps of 1e-5 in place of 1e-12 would show."""
    for norm in ("layer", "rms"):
        bundle = sharp_bundle(norm=norm, norm_eps=1e-12, positions="none", scale_embeddings=False)
        with torch.no_grad():
            bundle.model.src_embedding.weight.mul_(1e-3)
        folder = saved(bundle, tmp_path / norm)
        assert check_folder(bundle, folder) < FLOAT32
        other = sharp_bundle(norm=norm, norm_eps=1e-5, positions="none", scale_embeddings=False)
        other.model.load_state_dict(bundle.model.state_dict())
        with pytest.raises(ConversionError, match="differs from the model by"):
            check_folder(other, folder)


@pytest.mark.parametrize("beam_size", [2, 5])
@pytest.mark.parametrize("length_penalty", [1.0, 1.4])
def test_a_power_norm_finds_the_same_where_the_search_is_patient(
    beam_size: int, length_penalty: float, tmp_path: Path
) -> None:
    bundle = sharp_bundle()
    translator = load(saved(bundle, tmp_path / "model"))
    decode = DecodeConfig(beam_size=beam_size, length_norm="power", length_penalty=length_penalty)
    ours = our_translations(bundle, decode)
    assert ours == their_translations(bundle, translator, decode, patience=1000.0)
    plain = our_translations(bundle, decode.changed(length_norm="none"))
    assert ours != plain


def test_their_scores_of_translations_are_ours(tmp_path: Path) -> None:
    """The sum over n^A, n counting ``</s>`` where it is returned."""
    bundle = sharp_bundle()
    translator = load(saved(bundle, tmp_path / "model"))
    n = len(LINES)
    for decode in (
        DecodeConfig(beam_size=3, length_norm="none"),
        DecodeConfig(beam_size=3, length_norm="power", length_penalty=0.7),
    ):
        found = search(bundle.model.step, our_start(bundle), n, decode, limits=[LIMIT] * n, **special(bundle))
        results = translator.translate_batch(
            tokens(bundle.tokenizers.src.vocabulary(), sources(bundle)),
            max_decoding_length=LIMIT, return_scores=True, patience=1000.0, **search_options(decode),
        )  # fmt: skip
        for hypotheses, result in zip(found, results, strict=True):
            assert hypotheses[0].score == pytest.approx(result.scores[0], abs=LOGPROB)


def test_min_length_and_ngrams_go_along(tmp_path: Path) -> None:
    bundle = sharp_bundle()
    translator = load(saved(bundle, tmp_path / "model"))
    for decode in (DecodeConfig(beam_size=1, min_length=9), DecodeConfig(beam_size=1, no_repeat_ngram=1)):
        ours = our_translations(bundle, decode)
        assert ours == their_translations(bundle, translator, decode)
        assert ours != our_translations(bundle, DecodeConfig(beam_size=1))


@pytest.mark.parametrize("name", ["ours", "modern", "paper", "no encoder layers", "bilinear"])
def test_int8_is_what_ctranslate2_itself_quantises(name: str, tmp_path: Path) -> None:
    bundle = sharp_bundle(**VARIANTS[name])
    plain, quantised = saved(bundle, tmp_path / "plain"), saved(bundle, tmp_path / "int8", "int8")
    own, ours = load(plain, "int8"), load(quantised, "int8")
    forced = targets(bundle)
    assert largest(their_scores(bundle, own, forced), their_scores(bundle, ours, forced)) < SAME_INT8
    for decode in (DecodeConfig(beam_size=1), DecodeConfig(beam_size=3, length_norm="none")):
        assert their_translations(bundle, own, decode) == their_translations(bundle, ours, decode)


def size(folder: Path) -> int:
    return (folder / "model.bin").stat().st_size


@pytest.mark.parametrize("quantization", ["int8", "int8_float32", "int8_float16", "int8_bfloat16"])
def test_int8_stays_near_and_is_small(quantization: str, tmp_path: Path) -> None:
    bundle = make_bundle(d_model=128, d_ff=512, n_encoder_layers=2, n_decoder_layers=2, positions="rotary")
    plain, small = saved(bundle, tmp_path / "plain"), saved(bundle, tmp_path / "small", quantization)
    assert FLOAT32 < check_folder(bundle, small, quantization) < INT8
    assert 0.25 < size(small) / size(plain) < 0.28


@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int16"])
def test_the_other_quantisations_halve_the_file(quantization: str, tmp_path: Path) -> None:
    bundle = make_bundle(d_model=64, positions="rotary")
    plain, small = saved(bundle, tmp_path / "plain"), saved(bundle, tmp_path / "small", quantization)
    assert FLOAT32 < check_folder(bundle, small, quantization) < SHORT_WEIGHTS
    assert size(small) / size(plain) == pytest.approx(0.5, abs=0.02)
