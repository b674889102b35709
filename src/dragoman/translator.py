"""``Translator``: text in, :class:`Translation` out.

Shapes: B batch, S source length, T target length, H heads; special tokens included.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, overload

import torch

from dragoman.bundle import Bundle, load_bundle
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.record import SearchRecord, record_search
from dragoman.errors import ConfigError, DataError, Setting
from dragoman.model.transformer import Attention
from dragoman.text.batching import ordered_batches
from dragoman.text.sentences import has_word, plainly_spaced, put_into, split_sentences
from dragoman.translating.alternatives import MOST_WORDS, next_words
from dragoman.translating.asked import (
    Request,
    Target,
    TermPairs,
    check_check,
    check_document,
    check_report,
    ids_of,
    one_text,
    paths_of,
    whole_number,
)
from dragoman.translating.attending import all_attention, source_attention
from dragoman.translating.device import dtype_of, resolve_device
from dragoman.translating.ensemble import Engine, alike, make_engine
from dragoman.translating.jobs import Intake, Job
from dragoman.translating.options import asked_config
from dragoman.translating.results import Results, say_unmet
from dragoman.translating.searcher import Searcher
from dragoman.translating.stream import Stream, pieces_of
from dragoman.translation import Translation

# Source tokens of a batch, padding included. With a beam of 5 a model of 2 million parameters takes 8 to 10 % less time
# on one CPU core than with 2,048, there being fewer steps with few rows, and 110 MB more (docs/results.md).
BATCH_TOKENS = 4096

Report = Callable[[int], None]
Place = str | os.PathLike[str]


class Translator:
    """Translates with one model, or with several of the same vocabularies; they are put into evaluation mode.

    A translation does not depend on the other texts given with it, nor on their order, but for choices between what is
    equally likely to five digits (docs/howto/decode.md has what int8 adds to that). ``<unk>``, ``<pad>`` and
    ``<s>`` are never produced. ``device``: where to compute; None: where the model is. ``others``: more models, whose
    probabilities are averaged with the first one's; settings, languages and attention are the first one's.
    ``precision``: int8 for products of eight-bit numbers (attention is still shown in full precision); anything else
    leaves the weights as they are. ``compile``: see :meth:`load`. Raises :class:`ConfigError` for models that do not
    fit together, or no int8 here.
    """

    def __init__(
        self,
        bundle: Bundle,
        device: torch.device | str | None = None,
        others: Sequence[Bundle] = (),
        precision: str = "fp32",
        *,
        compile: bool = False,  # noqa: A002  # PyTorch's word
    ) -> None:
        self.bundle = bundle
        bundles = alike(bundle, others)
        self.model = bundle.model.eval() if device is None else bundle.model.to(resolve_device(str(device))).eval()
        self.device = next(self.model.parameters()).device
        engine = make_engine([one.model.to(self.device).eval() for one in bundles], precision, compiled=compile)
        shapes = [one.model.config for one in bundles]
        bounded = any(shape.positions in ("learned", "table") for shape in shapes)
        self.intake = Intake(shapes[0], bundle.tokenizers, min(shape.max_length for shape in shapes), bounded)
        self.results = Results(self.intake)
        self._searcher = Searcher(engine, self.intake, self.device)

    @property
    def engine(self) -> Engine:
        """What encodes and steps in every search and scoring; attention alone is the (first) model's own."""
        return self._searcher.engine

    @classmethod
    def load(
        cls,
        path: Place | Sequence[Place],
        device: str = "auto",
        precision: str = "fp32",
        *,
        compile: bool = False,  # noqa: A002  # PyTorch's word
    ) -> Translator:
        """Read a model directory, or several into an ensemble. ``precision``: fp32, int8 or bf16.

        ``compile``: greedy search and drawing of one text at a time run compiled on the CPU in fp32. That takes up to
        a minute for the first model of a shape; what was compiled is kept in the user's cache. Where it cannot be, and
        at the first beam, which makes no use of it, a warning says so.

        Raises :class:`BundleError`, and :class:`ConfigError` for what is not there or does not fit together.
        """
        where, dtype = resolve_device(str(device)), dtype_of(str(precision))
        first, *others = [load_bundle(one, where, dtype) for one in paths_of(path)]
        return cls(first, others=others, precision=precision, compile=compile)

    def interruptible(self, check: Callable[[], object]) -> Translator:
        """This translator, with ``check`` called before each step of its searches; what that raises ends the call.

        Raises :class:`ConfigError` for what cannot be called; so do the calls whose check raises StopIteration.
        """
        check_check(check)
        other = copy.copy(self)
        other._searcher = Searcher(self.engine, self.intake, self.device, check)
        return other

    @property
    def special(self) -> frozenset[str]:
        """The names that tokens have in a translation which stand for no text."""
        shape, tokenizers = self.intake.shape, self.bundle.tokenizers
        names = tokenizers.src.tokens([shape.bos_id, shape.eos_id, shape.src_pad_id])
        return frozenset(names + tokenizers.tgt.tokens([shape.bos_id, shape.eos_id, shape.tgt_pad_id]))

    def decode_config(self, **options: Any) -> DecodeConfig:
        """The model's default way to decode with some fields changed.

        Raises :class:`ConfigError` for what cannot be, or has no effect beside something else.
        """
        return self._asked("decode_config", options)

    def _asked(self, call: str, options: dict[str, Any]) -> DecodeConfig:
        config = asked_config(self.bundle.decode, options, call)
        self.intake.check_minimum(config)
        return config

    @overload
    def translate(
        self,
        text: str,
        *,
        prefix: str | None = ...,
        constraints: Sequence[str] | None = ...,
        terms: TermPairs | None = ...,
        strict_terms: bool = ...,
        attention: bool = ...,
        batch_tokens: int = ...,
        line_numbers: Sequence[int] | None = ...,
        report: Report | None = ...,
        **options: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        *,
        prefix: Sequence[str] | None = ...,
        constraints: Sequence[Sequence[str]] | None = ...,
        terms: TermPairs | None = ...,
        strict_terms: bool = ...,
        attention: bool = ...,
        batch_tokens: int = ...,
        line_numbers: Sequence[int] | None = ...,
        report: Report | None = ...,
        **options: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        prefix: str | Sequence[str] | None = None,
        constraints: Sequence[str] | Sequence[Sequence[str]] | None = None,
        terms: TermPairs | None = None,
        strict_terms: bool = False,
        attention: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        line_numbers: Sequence[int] | None = None,
        report: Report | None = None,
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate a text, or a list of texts into a list.

        ``prefix`` is what each translation begins with, white space around it left out. ``constraints`` are target
        phrases that have to stand in it (for a list of texts a list of them for each); ``terms``, a :class:`Terms` or
        (source term, target phrase) pairs, ask for the phrase wherever the term stands in a text. What could not be met
        stands in ``unmet`` and in a warning; with ``strict_terms`` it is a :class:`DataError`. ``attention`` asks for
        the weights of the best translation. A batch holds ``batch_tokens`` source tokens, padding included.
        ``line_numbers`` (from 0; default: 0, 1, …) choose the draws of sampling and stand, counted from 1, in messages;
        ``report`` is called after each batch with the number of texts done. ``options`` are fields of
        :class:`DecodeConfig` (``beam_size=5``, ``n_best=3``, …) in place of the model's defaults.

        A text of nothing but white space gives an empty translation, without a search; its prefix and constraints
        are unmet. One that is longer than the model's ``max_length`` is translated in parts, split at sentence ends,
        with a warning. Where the model's positions end (learned ones do), a sentence that is longer is cut there, with
        a warning. A translation stops at the model's ``max_length``, with a warning too, unless the option
        ``max_length`` allows more. Raises :class:`ConfigError` for an unknown option, or one that has no effect beside
        another, :class:`DataError` for a prefix that cannot be forced.
        """
        config = self._asked("translate", options)
        budget = whole_number("batch_tokens", batch_tokens)
        check_report(report)
        request = Request.of(text, line_numbers, prefix, constraints, terms, strict=strict_terms)
        jobs = self.intake.jobs(request, config)
        results = self.results.empty(request, config, strict=strict_terms)
        found: dict[int, Translation] = {}
        left = Counter(job.place for job in jobs)
        # Apart, so that a sentence without phrases is found as it would be without neighbours that have some.
        for kind in (False, True):
            places = [place for place, job in enumerate(jobs) if bool(job.phrases) == kind]
            for group in ordered_batches([len(self.intake.with_special(jobs[at].source)) for at in places], budget):
                batch = [places[at] for at in group]
                searched = self._searcher.search([jobs[at] for at in batch], config)
                for at, hypotheses in zip(batch, searched, strict=True):
                    found[at] = self._result(jobs[at], hypotheses, attention, strict_terms)
                    left[jobs[at].place] -= 1
                if report is not None:
                    report(len(request.texts) - sum(1 for parts in left.values() if parts))
        for place, parts in groupby(range(len(jobs)), key=lambda at: jobs[at].place):
            results[place] = self.results.joined([(jobs[at], found[at]) for at in parts], config)
        return results[0] if isinstance(text, str) else results

    def _result(self, job: Job, hypotheses: list[Hypothesis], attention: bool, strict: bool) -> Translation:
        """The translation of one job, with what has to be said about it."""
        found = self.results.of(job, hypotheses)
        if attention:
            found.attention = all_attention(self.model, self._searcher, job.source, found.ids)
        say_unmet(found.unmet, job.line, strict=strict)
        return found

    def stream(
        self,
        text: str,
        *,
        prefix: str | None = None,
        constraints: Sequence[str] | None = None,
        terms: TermPairs | None = None,
        strict_terms: bool = False,
        attention: bool = False,
        line_number: int = 0,
        **options: Any,
    ) -> Stream:
        """The translation of a text piece by piece, as soon as nothing that comes can change it.

        The pieces joined are ``translate(text, …).text``; after the last of them, all that is known stands in
        ``translation`` of what this returns. Greedy search and a single draw give out every token, a beam what all of
        its hypotheses share, several draws (``n_best``) all at the end; a character that is spread over tokens comes
        whole. The search goes on when the next piece is asked for. The other parameters are those of :meth:`translate`.
        """
        config = self._asked("stream", options)
        text = one_text(text, "streamed")
        request = Request.of(text, [line_number], prefix, constraints, terms, strict=strict_terms)
        jobs = self.intake.jobs(request, config)
        (empty,) = self.results.empty(request, config, strict=strict_terms)

        def finished(job: Job, hypotheses: list[Hypothesis]) -> Translation:
            return self._result(job, hypotheses, attention, strict_terms)

        return Stream(pieces_of(jobs, config, self._searcher, self.results, finished, empty))

    def alternatives(self, src: str, prefix: Target = "", n: int = 5, **options: Any) -> list[Translation]:
        """How a translation of ``src`` that begins with ``prefix`` can go on: ``n`` next words, likeliest first.

        Each is a whole translation, the best that goes on with that word. ``prefix`` is a text, token ids, or a
        :class:`Translation`, whose ``</s>`` does not count. A text may go on within its last word; behind white
        space a new word begins. Words are found by their first tokens: the likeliest ones are completed until ``n``
        different words have been seen, so that there may be fewer. That the translation ends here counts as one.
        Raises :class:`ConfigError` for drawing and for ``n_best``, and :class:`DataError` for a blank ``src``.
        """
        n = whole_number("n", n, MOST_WORDS)
        config = self._asked("alternatives", {"n_best": 1, "sample": False, **options})
        if config.sample:
            raise ConfigError("alternatives need a search, and ", Setting("sample"), " draws at random; leave it out.")
        if config.n_best > 1:
            raise ConfigError(Setting("n_best"), " has no effect on alternatives, of which there are n; leave it out.")
        if not one_text(src, "continued").strip():
            raise DataError("there is nothing to translate; give a text that holds more than white space.")
        new_word = isinstance(prefix, str) and prefix != prefix.rstrip()
        ids = self.intake.target(prefix.strip()) if isinstance(prefix, str) else ids_of(prefix)
        if ids[-1:] == [self.intake.shape.eos_id]:
            ids = ids[:-1]
        self.bundle.tokenizers.tgt.tokens(ids)  # which refuses what is no id of the model's
        job = Job(0, 0, self.intake.source(src), ids)
        return [self.results.of(job, [one]) for one in next_words(self._searcher, job, config, n, new_word=new_word)]

    def record(self, text: str, *, prefix: str | None = None, **options: Any) -> tuple[Translation, SearchRecord]:
        """The translation of a text, and everything that its beam search looked at.

        Raises :class:`ConfigError` for drawing, and :class:`DataError` for a text that has to be split.
        """
        config = self._asked("record", {"sample": False, **options})
        if config.sample:
            raise ConfigError("only a beam search can be recorded; leave out ", Setting("sample"), ".")
        request = Request.of(one_text(text, "recorded"), None, prefix)
        jobs = self.intake.jobs(request, config)
        if not jobs:
            return self.results.empty(request, config, strict=False)[0], SearchRecord(config, 0)
        if len(jobs) > 1:
            raise DataError("the text is longer than the model reads at once; record its sentences one by one.")
        search, shape = self._searcher.begin(jobs, config), self.intake.shape
        assert isinstance(search, BeamSearch)  # nothing is drawn, and no phrases were asked for
        state, limit = self._searcher.start([jobs[0].source]), self.intake.limit(jobs[0], config)
        special = {"bos_id": shape.bos_id, "eos_id": shape.eos_id}
        step = self._searcher.step(config)
        record = record_search(search, step, state, config, limit=limit, **special, device=self.device)
        found = self._result(jobs[0], search.results[0], False, False)
        return self.results.joined([(jobs[0], found)], config), record

    def score(self, src: str, tgt: Target, **options: Any) -> float:
        """The score that ``tgt`` has as a translation of ``src``; :meth:`force` gives all there is to know of it."""
        return self.force(src, tgt, **options).score

    def force(self, src: str, tgt: Target, *, attention: bool = False, **options: Any) -> Translation:
        """``tgt`` as a translation of ``src``, with the log-probabilities, score and attention that the model gives it.

        A text is tokenised and ends with ``</s>``; token ids are taken as they are, ``</s>`` where it is meant
        included; of a :class:`Translation` its ids count, and one made in parts is refused. ``options`` may set another
        ``length_norm`` or ``length_penalty`` than the model's, and ``renormalize`` with ``suppress``; those of a search
        change nothing, so that the options that a translation was made with can be given as they are. Raises
        :class:`DataError` for ids that are not the model's.
        """
        config, src = self._asked("force", options), one_text(src, "scored")
        ids = [*self.intake.target(tgt), self.intake.shape.eos_id] if isinstance(tgt, str) else ids_of(tgt)
        if not ids:
            return Translation("")
        job = Job(0, 0, self.intake.source(src), [])
        found = self.results.of(job, self._searcher.scored([job.source], [ids], config))
        if attention:
            found.attention = all_attention(self.model, self._searcher, job.source, found.ids)
        return found

    def source_attention(self, pairs: Sequence[tuple[str, Translation]]) -> Iterator[tuple[int, Attention]]:
        """The place of each text and its translation, and ``cross`` of its attention alone; many come of one pass."""
        places = [place for place, (_, found) in enumerate(pairs) if found.ids]
        ids = [(self.intake.source(pairs[place][0]), pairs[place][1].ids) for place in places]
        for at, layers in source_attention(self.model, self._searcher, ids):
            yield places[at], Attention(cross=layers)

    @overload
    def translate_document(
        self,
        text: str,
        *,
        terms: TermPairs | None = ...,
        line_numbers: Sequence[int] | None = ...,
        report: Report | None = ...,
        **options: Any,
    ) -> str: ...

    @overload
    def translate_document(
        self,
        text: Sequence[str],
        *,
        terms: TermPairs | None = ...,
        line_numbers: Sequence[int] | None = ...,
        report: Report | None = ...,
        **options: Any,
    ) -> list[str]: ...

    def translate_document(
        self,
        text: str | Sequence[str],
        *,
        terms: TermPairs | None = None,
        line_numbers: Sequence[int] | None = None,
        report: Report | None = None,
        **options: Any,
    ) -> str | list[str]:
        """Translate a text of several sentences, each by itself, or a list of such texts into a list.

        Line breaks and the spaces around sentences stay, and so does a line without a letter or a digit; to the
        model, white space of any kind inside a sentence is one space. The parameters are those of :meth:`translate`,
        without prefixes and constraints; the sentences of a text share its line number.
        """
        check_document(options)
        check_report(report)
        request = Request.of(text, line_numbers)
        texts = request.texts
        parts = [split_sentences(one) for one in texts]
        bodies = [plainly_spaced(part) if has_word(part) else "" for own in parts for part in own]
        lines = [number for number, own in zip(request.lines, parts, strict=True) for _ in own]

        def in_texts(done: int) -> None:
            if report is not None:
                report(done * len(texts) // len(bodies))

        found = iter(self.translate(bodies, terms=terms, line_numbers=lines, report=in_texts, **options))
        results = ["".join(put_into(part, next(found).text) for part in own) for own in parts]
        return results[0] if isinstance(text, str) else results
