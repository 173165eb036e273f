"""Which token the target model puts after a row of logits: the same for greedy, sampled, drafted or not.

A draw happens once per committed token, in order, from the processed distribution of that very
position. So the draft decides only how many rows one forward pass offers, never what is drawn: with
equal logits and an equal seed the drafted text is the plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessorList
from transformers.generation.logits_process import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

RANKS = 8  # second thoughts kept of a position


@dataclass(frozen=True)
class SamplingSettings:
    """Temperature 0 is greedy; ``top_k`` 0, ``top_p`` 1 and ``repetition_penalty`` 1 are off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0


class TokenChooser:
    """Chooses tokens one position at a time; holds the generator, so one instance serves one answer."""

    def __init__(self, settings: SamplingSettings, prompt_ids: Sequence[int]) -> None:
        self.greedy = settings.temperature == 0
        self.processors = _processors(settings)
        self.ids = list(prompt_ids) if self.processors else []
        self.generator = torch.Generator().manual_seed(settings.seed)

    def choose(self, logits: torch.Tensor) -> int:
        """The next token from its logits, float [vocabulary]; to be called once a committed token."""
        if self.processors:
            ids: Any = torch.tensor([self.ids], device=logits.device)
            logits = self.processors(ids, logits[None].float().clone())[0]
        if self.greedy:
            token = int(logits.argmax())
        else:
            probabilities = torch.softmax(logits.double().cpu(), dim=-1)
            token = int(torch.multinomial(probabilities, 1, generator=self.generator))
        if self.processors:
            self.ids.append(token)
        return token


def _processors(settings: SamplingSettings) -> LogitsProcessorList:
    """transformers' own processors, so that temperature means what it means there."""
    processors = LogitsProcessorList()
    if settings.repetition_penalty != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(settings.repetition_penalty))
    if settings.temperature > 0:
        if settings.temperature != 1.0:
            processors.append(TemperatureLogitsWarper(settings.temperature))
        if settings.top_k:
            processors.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1.0:
            processors.append(TopPLogitsWarper(settings.top_p))
    return processors


def best_ids(logits: torch.Tensor, count: int = RANKS) -> list[list[int]]:
    """The ``count`` best ids of each row, best first; logits [rows, vocabulary]."""
    ids: list[list[int]] = _best(logits, count)[0].tolist()
    return ids


def second_thoughts(logits: torch.Tensor, count: int = RANKS) -> tuple[list[list[int]], list[list[float]]]:
    """The ``count`` best ids of each row, best first, and their probabilities among themselves."""
    ids, values = _best(logits, count)
    return ids.tolist(), torch.softmax(values.float(), dim=-1).tolist()


def _best(logits: torch.Tensor, count: int, block: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and logits [rows, count] of the best.

    Only the blocks with the ``count`` largest maxima can hold them, so a full selection is not needed.
    """
    rows, vocabulary = logits.shape
    count = min(count, vocabulary)
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
