"""Which token the target model puts after a row of logits: the same for greedy, sampled, drafted or not.

A draw happens once per committed token, in order, from the processed distribution of that very
position. So the draft decides only how many rows one forward pass offers, never what is drawn: with
equal logits and an equal seed the drafted text is the plain text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.generation.logits_process import (
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from ragla.decode.backend import kernels

RANKS = 8  # second thoughts kept of a position


@dataclass(frozen=True)
class SamplingSettings:
    """How logits become a token.

    Temperature 0 is greedy. Off are ``top_k`` 0, ``top_p`` 1, ``min_p`` 0, ``repetition_penalty`` 1 and
    the other penalties 0. ``bad_words``: token sequences that are never completed. ``min_new_tokens``:
    the answer's length before which no end-of-sequence token is chosen.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    bad_words: tuple[tuple[int, ...], ...] = ()
    min_new_tokens: int = 0


class TokenChooser:
    """Chooses tokens one position at a time; holds the generator, so one instance serves one answer."""

    def __init__(
        self, settings: SamplingSettings, prompt_ids: Sequence[int], end_ids: Collection[int] = ()
    ) -> None:
        self.greedy = settings.temperature == 0
        self.processors = _processors(settings, len(prompt_ids), sorted(end_ids))
        self.ids = list(prompt_ids) if self.processors else []
        self.generator = torch.Generator().manual_seed(settings.seed)

    @property
    def takes_first(self) -> bool:
        """Whether the token is simply the one with the largest logit, the first of equals."""
        return self.greedy and not self.processors

    def choose(self, logits: torch.Tensor) -> int:
        """The next token from its logits, float [vocabulary]; to be called once a committed token."""
        if self.processors:
            ids: Any = torch.tensor([self.ids])
            logits = self.processors(ids, logits[None].to("cpu", torch.float32, copy=True))[0]
        if self.greedy:
            token = int(logits.argmax())
        else:
            probabilities = torch.softmax(logits.double().cpu(), dim=-1)
            token = int(torch.multinomial(probabilities, 1, generator=self.generator))
        if self.processors:
            self.ids.append(token)
        return token


class AnswerPenalty(LogitsProcessor):
    """Takes from a token's logit ``presence`` if the answer has it, and ``frequency`` as often as it has it.

    The two penalties of OpenAI's interface, which transformers has not: they count the answer's tokens
    only, ``repetition_penalty`` those of the prompt, too.
    """

    def __init__(self, prompt_tokens: int, presence: float, frequency: float) -> None:
        self.prompt_tokens = prompt_tokens
        self.presence = presence
        self.frequency = frequency

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [1, vocabulary] after the text ``input_ids`` [1, tokens]."""
        counts = torch.bincount(input_ids[0, self.prompt_tokens :], minlength=scores.shape[-1])
        return scores - self.frequency * counts - self.presence * (counts > 0)


def _processors(settings: SamplingSettings, prompt_tokens: int, end_ids: list[int]) -> LogitsProcessorList:
    """transformers' own processors, in its own order, so that temperature means what it means there."""
    processors = LogitsProcessorList()
    if settings.repetition_penalty != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(settings.repetition_penalty))
    if bad_words := [list(ids) for ids in settings.bad_words if ids and set(ids) - set(end_ids)]:
        processors.append(NoBadWordsLogitsProcessor(bad_words))
    if settings.min_new_tokens and end_ids:
        processors.append(MinNewTokensLengthLogitsProcessor(prompt_tokens, settings.min_new_tokens, end_ids))
    if settings.presence_penalty or settings.frequency_penalty:
        processors.append(AnswerPenalty(prompt_tokens, settings.presence_penalty, settings.frequency_penalty))
    if settings.temperature > 0:
        if settings.temperature != 1.0:
            processors.append(TemperatureLogitsWarper(settings.temperature))
        if settings.top_k:
            processors.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1.0:
            processors.append(TopPLogitsWarper(settings.top_p))
        if settings.min_p:
            processors.append(MinPLogitsWarper(settings.min_p))
    return processors


def best_ids(logits: torch.Tensor, count: int = RANKS) -> list[list[int]]:
    """The ``count`` best ids of each row, best first; logits [rows, vocabulary]."""
    ids: list[list[int]] = best_with_logits(logits, count)[0].tolist()
    return ids


def second_thoughts(logits: torch.Tensor, count: int = RANKS) -> tuple[list[list[int]], list[list[float]]]:
    """The ``count`` best ids of each row, best first, and their probabilities among themselves."""
    ids, values = best_with_logits(logits, count)
    return ids.tolist(), torch.softmax(values.float(), dim=-1).tolist()


def best_with_logits(logits: torch.Tensor, count: int, block: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and logits [rows, count] of the best.

    Without the kernels: only the blocks with the ``count`` largest maxima can hold them, so there is no full
    selection.
    """
    rows, vocabulary = logits.shape
    count = min(count, vocabulary)
    if kernels.can_rank(logits):
        return kernels.best(logits, count)
    whole = vocabulary // block * block
    if whole // block <= count:
        best = logits.topk(count, dim=-1)
        return best.indices, best.values
    blocks = logits[:, :whole].view(rows, -1, block)
    chosen = blocks.amax(-1).topk(count, dim=-1).indices
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, block)).view(rows, -1)
    ids = (chosen[:, :, None] * block + torch.arange(block, device=logits.device)).view(rows, -1)
    tail = torch.arange(whole, vocabulary, device=logits.device).expand(rows, -1)
    values = torch.cat([inside, logits[:, whole:]], dim=1)
    ids = torch.cat([ids, tail], dim=1)
    best = values.topk(count, dim=-1)
    return ids.gather(1, best.indices), best.values
