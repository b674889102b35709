"""``Translator``: text in, :class:`Translation` out.

Shapes: B batch, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, overload

import torch
from torch import Tensor

from dragoman.bundle import Bundle, load_bundle
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, beam_search, length_norm, sample
from dragoman.errors import ConfigError, DataError
from dragoman.model.transformer import Attention
from dragoman.text.batching import ordered_batches, pad, pad_sources
from dragoman.text.sentences import split_sentences
from dragoman.translation import Translation

logger = logging.getLogger("dragoman")

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Source tokens of a batch, padding included: fast on a CPU, small beside any model.
BATCH_TOKENS = 2048


def resolve_device(name: str) -> torch.device:
    """``auto``: cuda, else mps, else cpu. Raises :class:`ConfigError` for a device that is not there."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if there[kind]))
    if not there.get(name.partition(":")[0], False):
        raise ConfigError(f"there is no device {name} here; use auto or cpu.")
    return torch.device(name)


class Translator:
    """Translates with one model. A sentence's translation does not depend on the others given with it.

    ``<unk>``, ``<pad>`` and ``<s>`` are never produced.
    """

    def __init__(self, bundle: Bundle, device: torch.device | str = "cpu") -> None:
        self.bundle = bundle
        self.model = bundle.model
        self.device = torch.device(device)
        config = bundle.model.config
        self._forbidden = sorted({bundle.tokenizers.tgt.unk_id, config.tgt_pad_id, config.bos_id} - {config.eos_id})
        self._bounded = config.positions in ("learned", "table")

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "auto", precision: str = "fp32") -> Translator:
        """Read a model directory. ``precision``: fp32 or bf16. Raises :class:`BundleError`, :class:`ConfigError`."""
        if precision not in _DTYPES:
            raise ConfigError(f'no precision is called "{precision}"; there are {", ".join(_DTYPES)}.')
        place = resolve_device(device)
        return cls(load_bundle(path, place, _DTYPES[precision]), place)

    @overload
    def translate(
        self, text: str, *, attention: bool = ..., prefix: str | None = ..., **options: Any
    ) -> Translation: ...

    @overload
    def translate(
        self, text: Sequence[str], *, attention: bool = ..., prefix: Sequence[str] | None = ..., **options: Any
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        attention: bool = False,
        prefix: str | Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        first_line: int = 0,
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate a string, or a list of strings into a list.

        ``options`` are fields of :class:`DecodeConfig` (``beam_size=5``, ``n_best=3``, …) in place of the model's
        defaults; ``prefix`` is target text that the translation must begin with; ``attention`` adds the weights;
        ``first_line`` is the line number of the first text, for the seed of sampling.
        An empty text gives an empty translation. Raises :class:`ConfigError` for an unknown option,
        :class:`DataError` for a prefix that cannot be forced.
        """
        config = self.bundle.decode.changed(**options) if options else self.bundle.decode
        if isinstance(text, str):
            prefixes = None if prefix is None else [str(prefix)]
            return self._translate([text], prefixes, config, attention, batch_tokens, first_line)[0]
        if isinstance(prefix, str) or (prefix is not None and len(prefix) != len(text)):
            raise DataError(f"{len(text)} texts need as many prefixes; give a list of that length.")
        return self._translate(list(text), prefix, config, attention, batch_tokens, first_line)

    def _translate(
        self,
        texts: list[str],
        prefixes: Sequence[str] | None,
        config: DecodeConfig,
        attention: bool,
        batch_tokens: int,
        first_line: int,
    ) -> list[Translation]:
        results = [Translation("") for _ in texts]
        places = [place for place, text in enumerate(texts) if text.strip()]
        sources = self._sources([texts[place] for place in places], places)
        starts = [[] for _ in places] if prefixes is None else self._encode_prefixes([prefixes[p] for p in places])
        # A beam multiplies the rows: the budget counts rows of the search.
        rows = config.n_best if config.sample else config.beam_size
        budget = max(1, batch_tokens // max(1, rows // 2))
        for group in ordered_batches([len(source) + 2 for source in sources], budget):
            lines = [first_line + places[index] for index in group]
            found = self._search([sources[i] for i in group], [starts[i] for i in group], lines, config)
            for index, hypotheses in zip(group, found, strict=True):
                results[places[index]] = self._result(sources[index], hypotheses, attention)
        return results

    def _sources(self, texts: list[str], places: list[int]) -> list[list[int]]:
        """Source ids without special tokens, cut where the model's positions end, with a warning."""
        sources = self.bundle.tokenizers.src.encode_batch(texts)
        config = self.model.config
        if self._bounded:
            most = config.max_length - config.src_bos - config.src_eos
            for index, source in enumerate(sources):
                if len(source) > most:
                    logger.warning(
                        "text %d has %d tokens and the model reads %d: the rest is left out; split it into sentences.",
                        places[index] + 1,
                        len(source),
                        most,
                    )
                    sources[index] = source[:most]
        return sources

    def _encode_prefixes(self, prefixes: Sequence[str]) -> list[list[int]]:
        return self.bundle.tokenizers.tgt.encode_batch(list(prefixes))

    @torch.inference_mode()
    def _search(
        self, sources: list[list[int]], prefixes: list[list[int]], lines: list[int], config: DecodeConfig
    ) -> list[list[Hypothesis]]:
        """The hypotheses of one batch of source ids."""
        model, shape = self.model, self.model.config
        src, src_mask = self._padded_sources(sources)
        state = model.start(model.encode(src, src_mask), src_mask)
        special = shape.src_bos + shape.src_eos
        limits = [config.limit(len(source) + special) for source in sources]
        if self._bounded:
            limits = [min(limit, shape.max_length) for limit in limits]
        common: dict[str, Any] = {
            "bos_id": shape.bos_id,
            "eos_id": shape.eos_id,
            "limits": limits,
            "forbidden": self._forbidden,
            "prefixes": prefixes,
            "device": self.device,
        }
        if config.sample:
            return sample(model.step, state, len(sources), config, line_numbers=lines, **common)
        return beam_search(model.step, state, len(sources), config, **common)

    def _padded_sources(self, sources: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        src, mask = pad_sources(sources, self.model.config)
        return src.to(self.device), None if mask is None else mask.to(self.device)

    def _result(self, source: list[int], hypotheses: list[Hypothesis], attention: bool) -> Translation:
        shape = self.model.config
        src_ids = [shape.bos_id] * shape.src_bos + source + [shape.eos_id] * shape.src_eos
        src_tokens = self.bundle.tokenizers.src.tokens(src_ids)
        found = [self._translation(hypothesis, src_tokens) for hypothesis in hypotheses]
        if not found:
            return Translation("", float("-inf"), float("-inf"), src_tokens=src_tokens, finished=False)
        best = found[0]
        best.alternatives = found[1:]
        if attention:
            best.attention = self._attention(source, best.ids)
        return best

    def _translation(self, found: Hypothesis, src_tokens: list[str]) -> Translation:
        tgt = self.bundle.tokenizers.tgt
        ids = found.tokens[:-1] if found.finished else found.tokens
        return Translation(
            tgt.decode(ids),
            found.score,
            found.logprob,
            tgt.tokens(found.tokens),
            src_tokens,
            found.finished,
            ids=found.tokens,
            token_logprobs=found.token_logprobs,
        )

    @torch.inference_mode()
    def _attention(self, source: list[int], ids: list[int]) -> Attention:
        """The weights of one forced pass, a tensor [H,query,key] per layer."""
        src, _ = self._padded_sources([source])
        tgt = torch.tensor([[self.model.config.bos_id, *ids[:-1]]], device=self.device)
        _, attention = self.model(src, tgt, return_attention=True)
        kinds = (attention.encoder, attention.decoder, attention.cross)
        return Attention(*([layer[0].cpu() for layer in layers] for layers in kinds))

    def score(self, src: str, tgt: Translation | Sequence[int] | str, **options: Any) -> float:
        """The score that ``tgt`` would have as a translation of ``src``: see :meth:`token_logprobs`.

        ``options`` may set another ``length_norm`` or ``length_penalty`` than the model's default.
        """
        config = self.bundle.decode.changed(**options) if options else self.bundle.decode
        logprobs = self.token_logprobs(src, tgt)
        return sum(logprobs) / length_norm(config, len(logprobs))

    @torch.inference_mode()
    def token_logprobs(self, src: str, tgt: Translation | Sequence[int] | str) -> list[float]:
        """The log-probability of each target token when it is forced.

        A text is tokenised and ends with ``</s>``; token ids are taken as they are; of a
        :class:`Translation` its own ids count.
        """
        shape, tokenizers = self.model.config, self.bundle.tokenizers
        if isinstance(tgt, str):
            ids = [*tokenizers.tgt.encode(tgt), shape.eos_id]
        else:
            ids = list(tgt.ids if isinstance(tgt, Translation) else tgt)
        if not ids:
            return []
        if not all(0 <= index < tokenizers.tgt.vocab_size for index in ids):
            raise DataError(
                f"a target id lies outside the vocabulary of {tokenizers.tgt.vocab_size}; give ids of this model."
            )
        source, mask = self._padded_sources(self._sources([src], [0]))
        tgt_in, _ = pad([ids[:-1]], shape.tgt_pad_id, first=[shape.bos_id])
        logits = self.model(source, tgt_in.to(self.device), mask)[0]
        chosen = torch.tensor(ids, device=self.device)[:, None]
        values: list[float] = torch.log_softmax(logits.float(), -1).gather(1, chosen)[:, 0].tolist()
        return values

    def translate_document(self, text: str, **options: Any) -> str:
        """Translate a text of several sentences and lines; line breaks and the spaces between sentences stay."""
        parts = split_sentences(text)
        bodies = [part.strip() for part in parts]
        translations = self.translate(bodies, **options)
        out = []
        for part, body, translation in zip(parts, bodies, translations, strict=True):
            begin = part.find(body) if body else len(part)
            out.append(part[:begin] + translation.text + part[begin + len(body) :])
        return "".join(out)
