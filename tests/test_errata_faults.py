"""Faults of other implementations that no other test of ours would notice in our own code; see docs/errata.md."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from bundles import make_bundle
from doc_blocks import sections
from dragoman.config import DataConfig, ModelConfig, RunConfig
from dragoman.evaluation import evaluate
from dragoman.model.norms import make_norm
from dragoman.model.transformer import Attention, Transformer
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import SPECIAL_TOKENS
from dragoman.training import validation
from dragoman.training.prepare import prepare
from dragoman.training.report import Reporter
from dragoman.training.validation import Validator
from dragoman.translator import Translator
from tolerances import REORDERED, SCORE

METRICS = json.loads((Path(__file__).parent / "golden" / "metrics.json").read_text(encoding="utf-8"))
ERRATA = Path(__file__).resolve().parents[1] / "docs" / "errata.md"


def test_the_faulty_bleu_is_the_published_one() -> None:
    """The function of docs/errata.md gives the four values that the published code gives, to a tenth."""
    names: dict[str, Any] = {}
    chapter = next(section for section in sections(ERRATA) if section.title.startswith("hyunwoongko"))
    fault = next(section for section in sections(ERRATA) if section.anchor.startswith("its-bleu-counts-characters"))
    chapter.blocks[0].run(names)
    fault.blocks[0].run(names)
    for pair in METRICS["pairs"]:
        found = names["as_written"](pair["hypothesis"], pair["reference"])
        assert found == pytest.approx(pair["hyunwoongko_bleu_as_written"], abs=0.05)


def test_the_real_metrics_of_the_same_sentences() -> None:
    hypotheses = [pair["hypothesis"] for pair in METRICS["pairs"]]
    references = [pair["reference"] for pair in METRICS["pairs"]]
    bleu, cer, wer = (score.value for score in evaluate(hypotheses, references, ["bleu", "cer", "wer"]))
    assert bleu == pytest.approx(METRICS["corpus_word_bleu"], abs=SCORE)
    assert cer == pytest.approx(100 * METRICS["character_error_rate"], abs=SCORE)
    assert wer == pytest.approx(100 * METRICS["word_error_rate"], abs=SCORE)


def test_validation_translates_without_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other references change the scores and never what is scored."""
    bundle, sources = make_bundle(), ["The ferry leaves at nine.", "Nobody leaves the fields."]
    seen: list[tuple[list[str], list[str]]] = []

    def watched(hypotheses: list[str], references: list[str], metrics: tuple[str, ...], lowercase: bool) -> list[Any]:
        seen.append((hypotheses, references))
        return list(evaluate(hypotheses, references, metrics, lowercase))

    monkeypatch.setattr(validation, "evaluate", watched)
    for references in (["Die Fähre.", "Niemand."], ["Der Zaun ist grün.", "Ein kalter Wind weht."]):
        pairs = list(zip(sources, references, strict=True))
        Validator(pairs, bundle.tokenizers, 200).run(bundle, torch.device("cpu"))
    wanted = [one.text for one in Translator(bundle).translate(sources, beam_size=1)]
    assert [hypotheses for hypotheses, _ in seen] == [wanted, wanted]
    assert seen[0][1] != seen[1][1]


@pytest.mark.parametrize("held_out", [False, True])
def test_tokenizers_have_read_the_training_text_alone(held_out: bool, tmp_path: Path) -> None:
    """No word that occurs in validation or test text only has an id."""
    for name, mark, count in (("train", "t", 40), ("valid", "v", 5), ("test", "x", 5)):
        for side in ("src", "tgt"):
            lines = [f"{side} {mark}{side}{line}" for line in range(count)]
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    files = {name: {"src": f"{name}.src", "tgt": f"{name}.tgt"} for name in ("train", "valid", "test")}
    data = {**files, "dir": str(tmp_path)} | ({"valid": {"split": 5}} if held_out else {})
    config = RunConfig(
        data=DataConfig(**data),
        tokenizer={"kind": "wordlevel", "min_frequency": 1, "vocab_size": 500},
        train={"max_steps": 1},
    )
    prepared = prepare(config, tmp_path / "run", None, Reporter(quiet=True))
    assert prepared.valid is not None
    assert prepared.test is not None
    learned = set(prepared.tokenizers.src.tokens(range(prepared.tokenizers.src.vocab_size))) - set(SPECIAL_TOKENS)
    others = {word for pair in prepared.valid + prepared.test for text in pair for word in text.split()}
    assert len(learned) == 2 + 2 * (35 if held_out else 40)
    assert learned & others == {"src", "tgt"}


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "learned", "rotary"])
def test_the_order_of_the_words_counts(positions: str) -> None:
    """With positions of any kind, and only with them, the encoder tells a sentence from the same one reversed."""

    def change(kind: str) -> float:
        torch.manual_seed(3)
        model = Transformer(
            ModelConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=16, n_heads=2, d_ff=32, positions=kind)
        ).eval()
        ids = torch.tensor([[4, 5, 6, 7]])
        return float((model.encode(ids).flip(1) - model.encode(ids.flip(1))).detach().abs().max())

    assert change("none") < 1e-5
    assert change(positions) > 1e-2


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_an_encoder_without_a_mask_looks_both_ways(positions: str) -> None:
    """Leaving the mask out means that every position is real, and never the causal rule."""
    torch.manual_seed(4)
    config = ModelConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=16, n_heads=2, d_ff=32, positions=positions)
    model, ids, attention = Transformer(config).eval(), torch.tensor([[4, 5, 6, 7]]), Attention()
    memory = model.encode(ids, None, attention)
    assert all(bool((weights > 0).all()) for weights in attention.encoder)
    torch.testing.assert_close(memory, model.encode(ids, torch.ones(1, 4, dtype=torch.bool)), rtol=0, atol=REORDERED)


@pytest.mark.parametrize("kind", ["layer", "std", "std_scalar"])
def test_a_tiny_eps_serves_float16(kind: str) -> None:
    """1e-12 is 0 in float16; a row without spread gives the bias all the same."""
    norm = make_norm(kind, 8, 1e-12).half()
    with torch.no_grad():
        norm.get_parameter("bias").fill_(0.5)
    assert norm(torch.ones(1, 8, dtype=torch.float16)).tolist() == [[0.5] * 8]


def vocabularies() -> Iterator[dict[str, int]]:
    """Two orders of the same pieces."""
    pieces = ["</s>", "<unk>", "▁dog", "▁saw", "▁cat", "▁the", "<pad>"]
    for order in (pieces, [*pieces[:2], *pieces[5:1:-1], pieces[-1]]):
        yield {piece: index for index, piece in enumerate(order)}


def words_model() -> bytes:
    """A SentencePiece model of four words."""
    written = io.BytesIO()
    text = iter(["the dog saw the cat", "the cat saw the dog"])
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=text, model_writer=written, model_type="word", vocab_size=7, minloglevel=2
    )
    return written.getvalue()


def test_ids_of_sentencepiece_are_those_of_vocab_json() -> None:
    model, words = words_model(), ["▁the", "▁cat", "▁saw", "<unk>", "▁dog"]
    own = sentencepiece.SentencePieceProcessor(model_proto=model).encode("the cat saw a dog")
    for vocabulary in vocabularies():
        wanted = [vocabulary[word] for word in words]
        assert own != wanted
        assert SentencePieceTokenizer(model, vocabulary).encode("the cat saw a dog") == wanted


def test_marian_starts_from_the_padding_id() -> None:
    """As in OPUS-MT: </s> is 0, there is no <s>, and the first input of the decoder is padding."""
    config = ModelConfig.preset("marian", src_vocab_size=9, tgt_vocab_size=9)
    assert (config.bos_id, config.eos_id) == (config.tgt_pad_id, 0)
    for vocabulary in vocabularies():
        tokenizer = SentencePieceTokenizer(words_model(), vocabulary)
        assert (tokenizer.bos_id, tokenizer.eos_id) == (vocabulary["<pad>"], 0)
