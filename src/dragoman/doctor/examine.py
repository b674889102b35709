"""Which checks a configuration, a run or a model goes through, one after the other, within a time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from dragoman.bundle import Bundle, load_bundle
from dragoman.config import HeldOutCorpus, HubCorpus, RunConfig
from dragoman.configfile import load_config
from dragoman.doctor import learning, masks, model, run
from dragoman.doctor.saying import Say, counted
from dragoman.errors import DataError, DragomanError
from dragoman.model.transformer import Transformer
from dragoman.preflight import settings, vocabulary
from dragoman.preflight.finding import Check, Finding, Outcome
from dragoman.preflight.start import MOST_STREAMED, Text, outcome, text_checks, token_checks, vocabulary_checks
from dragoman.preflight.survey import Pair, Survey, survey
from dragoman.text.batching import Batch, TrainingBatches, collate
from dragoman.text.corpus import TokenCorpus, write_corpus
from dragoman.text.heldout import hold_out
from dragoman.text.readers import read_pairs
from dragoman.text.tokenizer import TokenizerPair, train_tokenizers
from dragoman.training.continued import continued, continued_config
from dragoman.training.prepare import model_config
from dragoman.translating.device import resolve_device
from dragoman.translator import Translator

# Training pairs read, and pairs of the batch that is learned by heart; sentences translated.
MOST_READ = 1_000_000
_BATCH_PAIRS = 8
_BATCH_LENGTHS = (4, 30)
_SENTENCES = 16
# Tokens of a batch of the rate test at most: what the rate does shows at any size, and the test has to be short.
_RATE_TOKENS = 1024
# Shares of the time that is left: learning by heart, then the rate.
_HEART, _RATE = 0.5, 0.8


@dataclass
class Examination:
    """What was checked so far. ``say`` tells the person who waits; ``seconds`` bound what trains."""

    say: Say
    seconds: float = 40.0
    outcomes: list[Outcome] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds until the time is up, and a few however late it is."""
        return max(3.0, self.seconds - (time.monotonic() - self.started))

    def make(self, checks: Iterable[Check]) -> None:
        """Make checks, in order."""
        for check in checks:
            self.say(f"checking: {check[0]}")
            self.outcomes.append(outcome(check))

    def add(self, title: str, *findings: Finding) -> None:
        """The outcome of what is no check of its own."""
        self.outcomes.append(Outcome(title, findings))


def examine(
    target: Path, overrides: Sequence[str], src: Sequence[str] | None, ref: Sequence[str] | None, made: Examination
) -> None:
    """Check what stands at ``target``: a configuration file, a run directory or a model directory.

    ``src`` and ``ref`` are lines of text for a model. Raises :class:`DataError` for anything else, and for options
    that the kind of target does not take.
    """
    if target.is_file():
        if src is not None or ref is not None:
            raise DataError("--src and --ref are for a model or a run; a configuration names its own text.")
        examine_config(continued_config(load_config(target, list(overrides))), made)
        return
    if overrides:
        raise DataError("KEY=VALUE changes a configuration file; a run or a model is examined as it is.")
    pairs = None if src is None else list(zip(src, ref if ref is not None else [""] * len(src), strict=True))
    if (target / "config.yaml").is_file():
        examine_run(target, pairs, made)
    elif (target / "config.json").is_file():
        config = target.parent / "config.yaml"
        if pairs is None and config.is_file():
            pairs = _valid_pairs(load_config(config), made)
        examine_model(target, pairs, made, with_references=ref is not None or src is None)
    else:
        what = "holds neither a run (config.yaml) nor a model (config.json)" if target.exists() else "does not exist"
        raise DataError(f"{target} {what}; give a configuration file, a run directory or a model directory.")


def examine_config(config: RunConfig, made: Examination) -> None:
    """Everything that can be known before a training: text, vocabulary, settings, masks, and whether it learns."""
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    made.say("reading the text")
    try:
        train, held = _texts(config, made.say)
        most = MOST_STREAMED if isinstance(config.data.train, HubCorpus) else MOST_READ
        seen = survey(train(), held, most)
        if not any(src.strip() and tgt.strip() for src, tgt in seen.pairs()):
            raise DataError("the training text holds no pair of sentences; check data.train.")
    except DragomanError as error:
        made.add("reading the text", Finding("error", str(error)))
        return
    made.add("reading the text", Finding("ok", seen.extent()))
    made.make(text_checks(config, seen, held))
    try:
        tokenizers, base = _tokenizers(config, seen, made)
    except DragomanError as error:
        made.add("tokenizers", Finding("error", str(error)))
        return
    made.make(vocabulary_checks(tokenizers, {"training text": list(seen.pairs()), **held}))
    made.say("cutting the sample into tokens")
    with tempfile.TemporaryDirectory(prefix="dragoman-doctor-") as folder:
        rows = counted(seen.pairs(), "cutting the sample into tokens", made.say)
        corpus = write_corpus(rows, tokenizers, config.data, Path(folder) / "corpus")
        if not len(corpus):
            text = "every training pair is empty, too long or over the ratio; check data.train and data.max_length."
            made.add("dropped pairs", Finding("error", text))
            return
        pairs = round(seen.read * len(corpus) / max(1, seen.size))
        try:
            network = _model(config, tokenizers, base).to(resolve_device(config.train.device))
        except DragomanError as error:
            made.add("the model", Finding("error", str(error)))
            return
        given = Text(seen, held, tokenizers, corpus, pairs)
        _with_model(config, given, network, made)


def _texts(config: RunConfig, say: Say) -> tuple[Callable[[], Iterator[Pair]], dict[str, list[Pair]]]:
    """A reader of the training pairs, and the validation and test pairs by name."""
    data = config.data

    def train() -> Iterator[Pair]:
        return counted(read_pairs(data.train, data.dir), "reading the text", say)

    reader: Callable[[], Iterator[Pair]] = train
    held: dict[str, list[Pair]] = {}
    if isinstance(data.valid, HeldOutCorpus):
        if not isinstance(data.train, HubCorpus):
            reader, held["valid"] = hold_out(lambda: islice(train(), MOST_READ), data.valid.split, config.train.seed)
    elif data.valid is not None:
        held["valid"] = list(read_pairs(data.valid, data.dir))
    if data.test is not None:
        held["test"] = list(read_pairs(data.test, data.dir))
    for name, rows in held.items():
        if not rows:
            raise DataError(f"data.{name} holds no pairs; give files with text, or leave data.{name} out.")
    return reader, held


def _tokenizers(config: RunConfig, seen: Survey, made: Examination) -> tuple[TokenizerPair, Bundle | None]:
    """The tokenizers that the training would use: those of ``init_from`` or of a file, or trained on the sample."""
    data = config.data
    if config.train.init_from:
        base = load_bundle(Path(data.dir) / config.train.init_from)
        made.add("tokenizers", Finding("ok", f"those of {config.train.init_from}"))
        return base.tokenizers, base
    path = config.tokenizer.path
    there = path is not None and (Path(data.dir) / path).exists()
    if not there:
        made.say("training the tokenizers on the sample")
    # Nothing is written where the training would keep what it learns.
    chosen = config.tokenizer if there else config.tokenizer.changed(path=None)
    found = train_tokenizers(chosen, seen.pairs, Path(data.dir), (data.src_lang, data.tgt_lang))
    sizes = f"{found.src.vocab_size:,}" + ("" if found.joint else f" and {found.tgt.vocab_size:,}") + " tokens"
    made.add("tokenizers", Finding("ok", f"{sizes}, {f'from {path}' if there else f'trained on {seen.size:,} pairs'}"))
    return found, None


def _model(config: RunConfig, tokenizers: TokenizerPair, base: Bundle | None) -> Transformer:
    """The model that the training would begin with."""
    if base is not None:
        return continued(base.model, config.model)
    with torch.random.fork_rng():
        torch.manual_seed(config.train.seed)
        return Transformer(model_config(config, tokenizers))


def _with_model(config: RunConfig, given: Text, network: Transformer, made: Examination) -> None:
    """What needs the model: the settings against it, its masks, and whether it learns."""
    corpus, shape, device = given.corpus, network.config, next(network.parameters()).device
    folder = Path("runs") / config.name
    checks = token_checks(config, shape, given, device.type, folder)
    made.make(checks)
    network.eval()
    made.make(_mask_checks(network, _probe_pairs(corpus)))
    if any(finding.severity == "error" for one in made.outcomes for finding in one.findings):
        made.add("learning", Finding("note", "not tried, since there are errors; mend them and call doctor again."))
        return
    batch = _small_batch(corpus, network)
    made.make(
        [
            (
                "learning one small batch by heart",
                partial(learning.overfit, network, batch, config.train, _HEART * made.left(), made.say),
            )
        ]
    )
    pace = learning.Pace()
    peak = settings.peak_rate(config.train, shape.d_model)
    budget = min(config.train.batch_tokens, _RATE_TOKENS)
    batches = (batch for batch, _ in TrainingBatches(corpus, shape, budget, config.train.seed).iterate())
    trial = partial(learning.rate_test, network, batches, config.train, peak, _RATE * made.left(), made.say, pace)
    made.make([("the learning rate", trial)])
    if config.train.max_minutes and pace.seconds:
        per_epoch = settings.updates_per_epoch(given.pairs or 0, corpus, shape, config.train)
        update = pace.seconds * config.train.batch_tokens / budget * config.train.accumulate
        made.make([("time", partial(settings.time_budget, config, per_epoch, update))])


def _probe_pairs(corpus: TokenCorpus) -> list[tuple[list[int], list[int]]]:
    rows = [corpus.pair(index) for index in range(min(3, len(corpus)))]
    return [(src.tolist(), tgt.tolist()) for src, tgt in rows]


def _mask_checks(network: Transformer, pairs: list[tuple[list[int], list[int]]]) -> list[Check]:
    batch = masks.probe_batch(network, pairs)
    return [
        ("masks: what the model sees and must not see", partial(masks.probe, network, batch)),
        ("a source that is masked as a whole", partial(masks.masked_rows, network, batch)),
    ]


def _small_batch(corpus: TokenCorpus, network: Transformer) -> Batch:
    """A few different pairs of some words, spread over the text; the shortest where there are none of that length."""
    least, most = _BATCH_LENGTHS
    step = max(1, len(corpus) // 2000)
    chosen: dict[tuple[int, ...], int] = {}
    every = range(0, len(corpus), step)
    for index in every:
        src, tgt = (tuple(row.tolist()) for row in corpus.pair(index))
        if all(least <= len(row) <= most for row in (src, tgt)) and src not in chosen:
            chosen[src] = index
    indices = list(chosen.values())[:: max(1, len(chosen) // _BATCH_PAIRS)][:_BATCH_PAIRS]
    if not indices:
        indices = sorted(every, key=lambda index: sum(map(len, corpus.pair(index))))[:_BATCH_PAIRS]
    device = next(network.parameters()).device
    return collate([corpus.pair(index) for index in indices], network.config, indices).to(device)


def _valid_pairs(config: RunConfig, made: Examination) -> list[Pair] | None:
    """Some of a run's validation pairs, where they can still be read."""
    data = config.data
    corpus = data.valid if data.valid is not None and not isinstance(data.valid, HeldOutCorpus) else data.test
    if corpus is None or isinstance(corpus, HubCorpus):
        return None
    try:
        return list(islice(read_pairs(corpus, data.dir), 1000))
    except DragomanError as error:
        made.add("reading the run's validation text", Finding("note", str(error)))
        return None


def examine_run(folder: Path, pairs: list[Pair] | None, made: Examination) -> None:
    """A run's curves and checkpoints, and the best model in it."""
    config = load_config(folder / "config.yaml")
    records = run.read_records(folder)
    checks: list[Check] = [
        ("records", partial(run.log_file, records)),
        ("divergence", partial(run.divergence, records)),
        ("updates that were skipped", partial(run.non_finite, records)),
        ("gradients against clipping", partial(run.gradients, records, config.train.clip_norm)),
        ("speed", partial(run.speed, records)),
        ("overfitting, plateaus, best against last", partial(run.validation, records, config.train.best_metric)),
        ("the end of the run", partial(run.ending, records, config, folder)),
        ("the newest checkpoint", partial(run.checkpoint, folder)),
    ]
    made.make(checks)
    with_references = pairs is None
    if pairs is None:
        pairs = _valid_pairs(config, made)
    if (folder / "best").is_dir():
        examine_model(folder / "best", pairs, made, with_references or any(tgt for _, tgt in pairs or []))
    else:
        made.add("the best model", Finding("note", "there is none yet."))


def examine_model(folder: Path, pairs: list[Pair] | None, made: Examination, with_references: bool = True) -> None:
    """A model's weights, masks, tokenizers, and what it makes of ``pairs`` (without them it translates nothing)."""
    made.say("loading the model")
    try:
        bundle = load_bundle(folder)
    except DragomanError as error:
        made.add("loading the model", Finding("error", str(error)))
        return
    made.add("loading the model", Finding("ok", f"{folder}, {bundle.src_lang} to {bundle.tgt_lang}"))
    network, tokenizers = bundle.model, bundle.tokenizers
    broken = len(made.outcomes)
    made.make(
        [
            ("weights: numbers, dead matrices", partial(model.weights, network)),
            ("embeddings and what is tied", partial(model.embeddings, network)),
            ("sizes and ids of model and tokenizers", partial(_ids, bundle)),
        ]
    )
    if any(finding.severity == "error" for one in made.outcomes[broken:] for finding in one.findings):
        return
    sample = _spread(pairs or [])
    ids = [(tokenizers.src.encode(src), tokenizers.tgt.encode(tgt)) for src, tgt in sample[:3]]
    made.make(_mask_checks(network, ids))
    if not sample:
        made.add("translations", Finding("note", "not tried without text; give --src, and --ref if there is one."))
        return
    made.make(vocabulary_checks(tokenizers, {"the text": pairs or []} if with_references else {}))
    made.make([("sentences against the model's positions", partial(_positions, bundle, pairs or []))])
    if with_references:
        made.make([("the loss of real pairs", partial(model.likelihood, bundle, sample))])
    made.make([("translations", partial(_translations, bundle, sample, with_references))])


def _ids(bundle: Bundle) -> Iterator[Finding]:
    return vocabulary.ids(bundle.model.config, bundle.tokenizers)


def _spread(pairs: Sequence[Pair]) -> list[Pair]:
    """A few of the pairs that hold text, evenly."""
    full = [pair for pair in pairs if pair[0].strip()]
    return full[:: max(1, len(full) // _SENTENCES)][:_SENTENCES]


def _positions(bundle: Bundle, pairs: Sequence[Pair]) -> Iterator[Finding]:
    rows = bundle.tokenizers.src.encode_batch([src for src, _ in pairs])
    extra = bundle.model.config.src_bos + bundle.model.config.src_eos
    yield from model.positions(bundle.model, [len(row) + extra for row in rows], "the sentences")


def _translations(bundle: Bundle, pairs: Sequence[Pair], with_references: bool) -> Iterator[Finding]:
    sources = [src for src, _ in pairs]
    found = Translator(bundle).translate(sources, n_best=1, sample=False)
    yield from model.translations(sources, found, [tgt for _, tgt in pairs] if with_references else None)


def counts(outcomes: Iterable[Outcome]) -> Mapping[str, int]:
    """How many findings there are of each severity, worst first."""
    found = {"error": 0, "warning": 0, "note": 0}
    for one in outcomes:
        for finding in one.findings:
            if finding.severity in found:
                found[finding.severity] += 1
    return found
