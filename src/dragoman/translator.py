"""``Translator``: text in, :class:`Translation` out.

Shapes: B batch, S source length, T target length, H heads; special tokens included.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, cast, overload

import torch
from torch import Tensor

from dragoman.bundle import Bundle, load_bundle
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, beam_search, sample, score_targets
from dragoman.errors import ConfigError, DataError, nearest
from dragoman.model.cache import DecoderState
from dragoman.model.transformer import Attention
from dragoman.text.batching import ordered_batches, pad_sources
from dragoman.text.sentences import split_sentences
from dragoman.translation import Translation

logger = logging.getLogger("dragoman")

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}

# Source tokens of a batch, padding included. On one CPU core a model of 2 million parameters is as fast from 2,000
# tokens on, greedy and with a beam of 5, and a batch stays small beside the model.
BATCH_TOKENS = 2048

Report = Callable[[int], None]
Target = Translation | Sequence[int] | str


def resolve_device(name: str) -> torch.device:
    """``auto``: cuda, else mps, else cpu. Raises :class:`ConfigError` for a device that is not there."""
    there = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available()), "cpu": 1}
    if name == "auto":
        return torch.device(next(kind for kind, count in there.items() if count))
    match = re.fullmatch(r"(cuda|mps|cpu)(?::(\d+))?", name)
    if match is None or int(match[2] or 0) >= there[match[1]]:
        known = ", ".join(kind for kind, count in there.items() if count)
        raise ConfigError(f'there is no device "{name}" here; use auto, {known}.')
    return torch.device(name)


@dataclass(frozen=True)
class _Job:
    """One text to translate: its place among the results, its line number, its ids and those of its prefix."""

    place: int
    line: int
    source: list[int]
    prefix: list[int]


class Translator:
    """Translates with one model, which is put into evaluation mode.

    A translation does not depend on the other texts given with it, nor on their order. ``<unk>``, ``<pad>`` and
    ``<s>`` are never produced. ``device``: where to compute; None: where the model is.
    """

    def __init__(self, bundle: Bundle, device: torch.device | str | None = None) -> None:
        self.bundle = bundle
        self.model = bundle.model.eval() if device is None else bundle.model.to(device).eval()
        self.device = next(self.model.parameters()).device
        config = self.model.config
        self._forbidden = sorted({bundle.tokenizers.tgt.unk_id, config.tgt_pad_id, config.bos_id} - {config.eos_id})
        # Whether the model's positions end at its max_length.
        self._bounded = config.positions in ("learned", "table")

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "auto", precision: str = "fp32") -> Translator:
        """Read a model directory. ``precision``: fp32 or bf16. Raises :class:`BundleError`, :class:`ConfigError`."""
        if str(precision) not in _DTYPES:
            raise ConfigError(f'there is no precision "{precision}"; use {" or ".join(_DTYPES)}.')
        return cls(load_bundle(path, resolve_device(str(device)), _DTYPES[precision]))

    def decode_config(self, **options: Any) -> DecodeConfig:
        """The model's default way to decode with some fields changed. Raises :class:`ConfigError`."""
        fields = DecodeConfig.model_fields
        for name in options:
            if name not in fields:
                known = [*fields, "prefix", "attention", "batch_tokens"]
                raise ConfigError(f'no option of a translation is called "{name}"{nearest(name, known)}.')
        return self.bundle.decode.changed(**options) if options else self.bundle.decode

    @overload
    def translate(
        self,
        text: str,
        *,
        prefix: str | None = ...,
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
        attention: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        line_numbers: Sequence[int] | None = None,
        report: Report | None = None,
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate a string, or a list of strings into a list.

        ``prefix`` is target text that the translation has to begin with, or a list of such; ``attention`` adds the
        attention weights of the best translation; ``batch_tokens`` are the source tokens of a batch, padding
        included; ``line_numbers`` (default: 0, 1, …) choose the draws of sampling and stand, counted from 1, in
        messages; ``report`` is called after each batch with the number of texts done. ``options`` are fields of
        :class:`DecodeConfig` (``beam_size=5``, ``n_best=3``, …) in place of the model's defaults.

        A text of nothing but white space gives an empty translation, without a search. Where the model's positions
        end (learned ones do), a longer text is cut there, with a warning. A translation stops at the model's
        ``max_length``, with a warning too, unless the option ``max_length`` allows more. Raises :class:`ConfigError`
        for an unknown option, :class:`DataError` for a prefix that cannot be forced.
        """
        config = self.decode_config(**options)
        if not isinstance(batch_tokens, int) or batch_tokens < 1:
            raise ConfigError(f"batch_tokens is {batch_tokens!r}; give a whole number of at least 1.")
        texts = _texts(text)
        prefixes = [prefix] if isinstance(text, str) and isinstance(prefix, str) else prefix
        if isinstance(prefixes, str) or (prefixes is not None and len(prefixes) != len(texts)):
            raise DataError(f"{len(texts)} texts need as many prefixes; give a list of that length.")
        lines = range(len(texts)) if line_numbers is None else line_numbers
        results = [Translation("") for _ in texts]
        jobs = self._jobs(texts, prefixes, lines)
        done = len(texts) - len(jobs)
        dropped = sum(bool(start) for start in prefixes or ()) - sum(bool(job.prefix) for job in jobs)
        if dropped:
            logger.warning("blank texts stay empty though they have a target prefix: %d.", dropped)
        for group in ordered_batches([len(self._with_special(job.source)) for job in jobs], batch_tokens):
            batch = [jobs[place] for place in group]
            for job, hypotheses in zip(batch, self._search(batch, config), strict=True):
                results[job.place] = self._result(job.source, hypotheses, attention)
                self._check_end(job, config, results[job.place])
            done += len(batch)
            if report is not None:
                report(done)
        return results[0] if isinstance(text, str) else results

    def _jobs(self, texts: list[str], prefixes: Sequence[str] | None, lines: Sequence[int]) -> list[_Job]:
        """What there is to translate: the texts that hold more than white space."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        sources = [self._encode_source(texts[place], lines[place]) for place in places]
        starts: list[list[int]] = [[]] * len(places)
        if prefixes is not None:
            starts = [self._encode_target(prefixes[place], lines[place]) for place in places]
        return [_Job(place, lines[place], *ids) for place, *ids in zip(places, sources, starts, strict=True)]

    def _encode_source(self, text: str, line: int = 0) -> list[int]:
        """Source ids without special tokens, cut where the model's positions end, with a warning."""
        ids = self.bundle.tokenizers.src.encode(_checked(text, line))
        most = self.model.config.max_length - len(self._with_special([]))
        if not self._bounded or len(ids) <= most:
            return ids
        logger.warning(
            "line %d has %d tokens and the model reads at most %d: the rest is left out; split it into sentences.",
            line + 1,
            len(ids),
            most,
        )
        return ids[:most]

    def _encode_target(self, text: str, line: int = 0) -> list[int]:
        return self.bundle.tokenizers.tgt.encode(_checked(text, line))

    def _with_special(self, source: list[int]) -> list[int]:
        """Source ids with the special tokens that the model expects."""
        config = self.model.config
        return [config.bos_id] * config.src_bos + source + [config.eos_id] * config.src_eos

    def _limit(self, job: _Job, config: DecodeConfig) -> int:
        """The most target tokens of a translation. Raises :class:`DataError` where its prefix has more."""
        limit = config.limit(len(self._with_special(job.source)))
        if self._bounded or config.max_length is None:
            limit = min(limit, self.model.config.max_length)
        if len(job.prefix) > limit:
            raise DataError(
                f"the prefix of line {job.line + 1} has {len(job.prefix)} tokens, and its translation may have "
                f"{limit}; shorten the prefix or raise max_length."
            )
        return limit

    def _check_end(self, job: _Job, config: DecodeConfig, found: Translation) -> None:
        """Say so where it was the model's ``max_length``, and no setting of the search, that ended a translation."""
        most = self.model.config.max_length
        if not found.finished and len(found.ids) == most < config.limit(len(self._with_special(job.source))):
            remedy = "split it into sentences" + (" or set max_length" if not self._bounded else "")
            logger.warning("line %d: the translation stops unfinished at %d tokens; %s.", job.line + 1, most, remedy)

    @torch.no_grad()
    def _search(self, batch: list[_Job], config: DecodeConfig) -> list[list[Hypothesis]]:
        """The hypotheses of one batch, best first."""
        common: dict[str, Any] = {
            "bos_id": self.model.config.bos_id,
            "eos_id": self.model.config.eos_id,
            "limits": [self._limit(job, config) for job in batch],
            "forbidden": self._forbidden,
            "prefixes": [job.prefix for job in batch],
            "device": self.device,
        }
        state = self._start([job.source for job in batch])
        if config.sample:
            lines = [job.line for job in batch]
            return sample(self.model.step, state, len(batch), config, line_numbers=lines, **common)
        return beam_search(self.model.step, state, len(batch), config, **common)

    def _start(self, sources: list[list[int]]) -> DecoderState:
        src, mask = self._padded(sources)
        return self.model.start(self.model.encode(src, mask), mask)

    def _padded(self, sources: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        src, mask = pad_sources(sources, self.model.config)
        return src.to(self.device), None if mask is None else mask.to(self.device)

    def _result(self, source: list[int], hypotheses: list[Hypothesis], attention: bool) -> Translation:
        src_tokens = self.bundle.tokenizers.src.tokens(self._with_special(source))
        best, *others = [self._translation(hypothesis, src_tokens) for hypothesis in hypotheses]
        best.alternatives = others
        if attention:
            best.attention = self._attention(source, best.ids)
        return best

    def _translation(self, found: Hypothesis, src_tokens: list[str]) -> Translation:
        tgt = self.bundle.tokenizers.tgt
        return Translation(
            text=tgt.decode(found.tokens[:-1] if found.finished else found.tokens),
            score=found.score,
            logprob=found.logprob,
            tokens=tgt.tokens(found.tokens),
            src_tokens=src_tokens,
            finished=found.finished,
            ids=found.tokens,
            token_logprobs=found.token_logprobs,
        )

    @torch.no_grad()
    def _attention(self, source: list[int], ids: list[int]) -> Attention:
        """The weights of one forced pass, a tensor [H,query,key] per layer, on the CPU."""
        src, _ = self._padded([source])
        tgt = torch.tensor([[self.model.config.bos_id, *ids[:-1]]], device=self.device)
        _, attention = self.model(src, tgt, return_attention=True)
        kinds = (attention.encoder, attention.decoder, attention.cross)
        return Attention(*([layer[0].cpu() for layer in layers] for layers in kinds))

    def score(self, src: str, tgt: Target, **options: Any) -> float:
        """The score that ``tgt`` has as a translation of ``src``; :meth:`force` gives all there is to know of it."""
        return self.force(src, tgt, **options).score

    @torch.no_grad()
    def force(self, src: str, tgt: Target, *, attention: bool = False, **options: Any) -> Translation:
        """``tgt`` as a translation of ``src``, with the log-probabilities, score and attention that the model gives it.

        A text is tokenised and ends with ``</s>``; token ids are taken as they are, ``</s>`` where it is meant
        included; of a :class:`Translation` its ids count. ``options`` may set another ``length_norm`` or
        ``length_penalty`` than the model's. Raises :class:`DataError` for ids that are not the model's.
        """
        config, shape = self.decode_config(**options), self.model.config
        if isinstance(tgt, str):
            ids = [*self._encode_target(tgt), shape.eos_id]
        else:
            ids = _ids(tgt)
        if not ids:
            return Translation("")
        source = self._encode_source(src)
        state = self._start([source])
        special: dict[str, int] = {"bos_id": shape.bos_id, "eos_id": shape.eos_id}
        found = score_targets(self.model.step, state, [ids], config, **special, device=self.device)
        return self._result(source, found, attention)

    @overload
    def translate_document(
        self,
        text: str,
        *,
        line_numbers: Sequence[int] | None = ...,
        report: Report | None = ...,
        **options: Any,
    ) -> str: ...

    @overload
    def translate_document(
        self,
        text: Sequence[str],
        *,
        line_numbers: Sequence[int] | None = ...,
        report: Report | None = ...,
        **options: Any,
    ) -> list[str]: ...

    def translate_document(
        self,
        text: str | Sequence[str],
        *,
        line_numbers: Sequence[int] | None = None,
        report: Report | None = None,
        **options: Any,
    ) -> str | list[str]:
        """Translate a text of several sentences, each by itself, or a list of such texts into a list.

        Line breaks and the spaces around sentences stay. The parameters are those of :meth:`translate`; the
        sentences of a text share its line number.
        """
        texts = _texts(text)
        numbers = range(len(texts)) if line_numbers is None else line_numbers
        parts = [split_sentences(one) for one in texts]
        bodies = [part.strip() for own in parts for part in own]
        lines = [number for number, own in zip(numbers, parts, strict=True) for _ in own]

        def in_texts(done: int) -> None:
            if report is not None:
                report(done * len(texts) // len(bodies))

        found = iter(self.translate(bodies, line_numbers=lines, report=in_texts, **options))
        results = ["".join(_put_into(part, next(found).text) for part in own) for own in parts]
        return results[0] if isinstance(text, str) else results


def _texts(text: object) -> list[str]:
    """The texts of a string or a list of strings. Raises :class:`DataError` for anything else."""
    texts = [text] if isinstance(text, str) else list(text) if isinstance(text, Iterable) else [text]
    strings = [one for one in texts if isinstance(one, str)]
    if isinstance(text, bytes) or len(strings) != len(texts):
        odd = text if isinstance(text, bytes) else next(one for one in texts if not isinstance(one, str))
        raise DataError(f"a text is a {type(odd).__name__}; give a string, or a list of strings.")
    return strings


def _ids(tgt: object) -> list[int]:
    """The target ids of a translation or a list of whole numbers. Raises :class:`DataError` for anything else."""
    try:
        if isinstance(tgt, bytes):
            raise TypeError
        return [index(one) for one in (tgt.ids if isinstance(tgt, Translation) else cast("Sequence[int]", tgt))]
    except TypeError:
        raise DataError("a target is neither a text, nor token ids, nor a Translation; give one of these.") from None


def _put_into(part: str, translation: str) -> str:
    """The translation between the white space that stands around the sentence in ``part``."""
    body = part.strip()
    before, _, after = part.partition(body) if body else (part, "", "")
    return before + translation + after


def _checked(text: str, line: int) -> str:
    """The text itself; raises :class:`DataError` for one that is not Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"line {line + 1} holds half of a surrogate pair at character {error.start + 1}; give whole characters."
        ) from None
    return text
