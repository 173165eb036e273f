"""Tiny random models of many families, saved as a folder would be pulled, and a backend that is a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from hypothesis import settings
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast
from transformers.utils import logging

from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.kv_cache import KVCache
from ragla.decode.prefill import PromptCache
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.tree_attention import QueryRows
from ragla.trie import Answers, Drafter, DraftLimits
from tests.decode.tiny_configs import END, VOCABULARY
from tests.decode.tiny_configs import tiny_config as tiny_config

logging.disable_progress_bar()
logging.set_verbosity_error()


def few(divisor: int) -> settings:
    """Hypothesis settings for slow examples: the profile's number divided."""
    return settings(max_examples=max(1, settings.default.max_examples // divisor))


def save_tokenizer(folder: Path) -> None:
    """One word a token: t0 … t119."""
    words = Tokenizer(WordLevel({f"t{index}": index for index in range(VOCABULARY)}, unk_token="t0"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="t1", eos_token=f"t{END}", pad_token="t0", unk_token="t0"
    )
    tokenizer.save_pretrained(folder)


def save_tiny(folder: Path, config: Any, dtype: torch.dtype = torch.float32) -> Path:
    """A folder with the weights, config and tokenizer of a random model."""
    torch.manual_seed(1)
    reader = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = reader.from_config(config, dtype=torch.float32)
    model.to(dtype).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def plain(backend: Any, request: DecodeRequest) -> list[int]:
    """The plain loop's answer."""
    return [token for block in greedy(backend, request, DecodeStats()) for token in block.token_ids]


def generated(model: Any, prompt: list[int], tokens: int, **keywords: Any) -> list[int]:
    """What transformers' own search, greedy if nothing else is said, puts after a prompt."""
    keywords = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None, **keywords}
    with torch.inference_mode():
        rows = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=tokens,
            **keywords,
        )
    found: list[int] = rows[0].tolist()
    return found[1:] if model.config.is_encoder_decoder else found[len(prompt) :]


def drafted(
    backend: Any,
    request: DecodeRequest,
    limits: DraftLimits,
    seeds: list[list[int]] | None = None,
    earlier: Sequence[list[int]] = (),
    kept: PromptCache | None = None,
) -> tuple[list[int], DecodeStats]:
    """The answer of lookahead with a drafter that has read ``seeds``, and what it took.

    ``earlier`` answers are known to it: a first draft goes through the model with the prompt.
    """
    drafter, stats = Drafter(answers=Answers(8, 1 << 20)), DecodeStats()
    for answer in earlier:
        drafter.end(answer)
    drafter.begin(request.prompt_ids, [(f"seed {i}", ids) for i, ids in enumerate(seeds or [])])
    blocks = list(lookahead(backend, drafter, request, stats, limits, kept=kept))
    assert all(len(block.token_ids) == len(block.origins) for block in blocks)
    return [token for block in blocks for token in block.token_ids], stats


class ScriptedBackend:
    """A model that is a rule: ``following(token, position)`` comes after the token at that position."""

    name = "scripted"
    device = torch.device("cpu")
    drafts = drafts_with_prompt = True

    def __init__(self, following: Callable[[int, int], int], context_end: int = 10_000) -> None:
        self.following = following
        self.context_end = context_end
        self.forwards: list[int] = []

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, capacity)

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """One-hot logits; the cache's rows are the tokens, so that their order can be checked."""
        assert int(rows.positions.max()) < self.context_end
        self.forwards.append(len(rows.token_ids))
        cache.rows[0].update(rows.token_ids[None, None, :, None].float(), rows.positions[None, None, :, None])
        logits = torch.zeros(len(rows.token_ids), VOCABULARY)
        pairs = zip(rows.token_ids.tolist(), rows.positions.tolist(), strict=True)
        for row, (token, position) in enumerate(pairs):
            logits[row, self.following(token, position)] = 1.0
        return logits[-last:]
