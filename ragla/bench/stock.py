"""transformers' own ``model.generate`` on an unmodified model, as its users call it, with a stop watch."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.utils import logging

from ragla.config import DecodeSettings
from ragla.decode.model import TargetModel
from ragla.decode.request import DecodeRequest
from ragla.decode.verify import AnswerPenalty
from ragla.errors import ModelUnavailable


@dataclass
class StopWatch:
    """Counts one generation's forward passes and notes when its first token was there. Times in seconds."""

    prompt_tokens: int
    began: float = field(default_factory=perf_counter)
    forwards: int = 0
    prefill_tokens: int = 0
    ttft_s: float = 0.0
    decode_s: float = 0.0
    lengths: list[int] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Forward passes after prefill."""
        return self.forwards - 1

    def forward_ran(self, *_: Any) -> None:
        """A forward hook: the model ran once more."""
        self.forwards += 1

    def committed(self, token_ids: torch.Tensor) -> None:
        """Tokens of a forward pass were appended; ``token_ids`` [1, length] is the whole text."""
        if not self.prefill_tokens:
            int(token_ids[0, -1])  # fetching a value waits for a device that runs behind
            self.ttft_s = perf_counter() - self.began
            self.prefill_tokens = token_ids.shape[1] - self.prompt_tokens
        self.lengths.append(token_ids.shape[1] - self.prompt_tokens)

    def commits(self, tokens: int) -> tuple[int, ...]:
        """Tokens committed by each step, of an answer of so many tokens in all."""
        return tuple(min(after, tokens) - before for before, after in pairwise(self.lengths))

    def finish(self) -> None:
        """The answer is whole and on the host."""
        self.decode_s = perf_counter() - self.began - self.ttft_s


class _Watched(StoppingCriteria):
    """Called by ``generate`` after each commit; never stops it."""

    def __init__(self, watch: StopWatch) -> None:
        self.watch = watch

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> Any:
        self.watch.committed(input_ids)
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


def _conditions(request: DecodeRequest) -> dict[str, Any]:
    """What the request asks of greedy text beside the repetition penalty, as ``generate`` takes it."""
    sampling = request.sampling
    options: dict[str, Any] = {}
    if sampling.bad_words:
        options["bad_words_ids"] = [list(words) for words in sampling.bad_words]
    if sampling.min_new_tokens:
        options["min_new_tokens"] = sampling.min_new_tokens
    if sampling.presence_penalty or sampling.frequency_penalty:
        penalty = AnswerPenalty(
            len(request.prompt_ids), sampling.presence_penalty, sampling.frequency_penalty
        )
        options["logits_processor"] = LogitsProcessorList([penalty])
    return options


def stock_dtype(dtype: str) -> str:
    """The precision of the stock model beside a target of this dtype; transformers has no 8-bit twin here."""
    return "float32" if dtype == "int8" else dtype


@dataclass(frozen=True)
class StockModel:
    """A model as ``from_pretrained`` gives it: linears unpacked, default attention, default cache."""

    model: Any
    context_end: int

    @classmethod
    def load(cls, folder: Path, target: TargetModel, settings: DecodeSettings) -> StockModel:
        """Load what ``target`` was loaded from; 8-bit integer targets are compared with float32.

        Raises ModelUnavailable when it cannot be loaded.
        """
        dtype = getattr(torch, stock_dtype(target.dtype))
        keywords: dict[str, Any] = {"dtype": dtype, "trust_remote_code": settings.trust_remote_code}
        if settings.quantization is not None:
            keywords["quantization_config"] = dict(settings.quantization)
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it would draw on stderr
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, **keywords)
        except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ModelUnavailable(
                f"{folder}: the stock model cannot be loaded: {reason}", "leave the hf-* decoders out"
            ) from error
        if settings.quantization is None:
            model = model.to(target.backend.device)
        # many folders come with sampling defaults and penalties, which would change the greedy text
        model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]  # it has no types
            do_sample=False, repetition_penalty=settings.repetition_penalty
        )
        return cls(model.eval(), target.backend.context_end)

    def generate(
        self, request: DecodeRequest, lookup_tokens: int | None = None
    ) -> tuple[tuple[int, ...], StopWatch]:
        """The answer's token ids, an end-of-sequence token included, and the times it took.

        ``lookup_tokens``: draft so many tokens by prompt lookup; None: plain greedy search.
        """
        prompt = torch.tensor([list(request.prompt_ids)], device=self.model.device)
        end_ids = sorted(request.end_ids)
        options: dict[str, Any] = {"eos_token_id": end_ids, "pad_token_id": end_ids[0]} if end_ids else {}
        options |= _conditions(request)
        if lookup_tokens is not None:
            options["prompt_lookup_num_tokens"] = lookup_tokens
        watch = StopWatch(prompt.shape[1])
        hook = self.model.register_forward_hook(watch.forward_ran)
        try:
            sequences = self.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=min(request.max_new_tokens, self.context_end - prompt.shape[1]),
                stopping_criteria=StoppingCriteriaList([_Watched(watch)]),
                **options,
            )
            token_ids = tuple(sequences[0, prompt.shape[1] :].tolist())
            watch.finish()
        finally:
            hook.remove()
        return token_ids, watch
