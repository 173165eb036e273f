"""Models that cannot verify a tree: a token a step, with whatever memory the model itself keeps.

A recurrent state, a quantised cache or a decoder behind an encoder cannot take rows back, so nothing
is drafted. What is fed and what is remembered is what transformers' ``generate`` would feed and
remember, through the model's own ``prepare_inputs_for_generation`` and ``forward``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import QuantizedCache

from ragla.decode.checkpoint import first_line
from ragla.decode.families import asks_quantized_cache
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import QueryRows, causal_rows
from ragla.errors import ModelUnavailable

MEMORIES = ("cache", "state")  # what models call the memory they return and take back

NewMemory = Callable[[], Any]


class PlainCache(KVCache):
    """The text so far and the model's memory of it.

    ``memory``: keyword → value, as the model returned it; empty where the text must be read anew.
    ``prompt_rows``: how much of the text an encoder reads, ``encoded`` what it made of it.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(0, capacity)
        self.token_ids: list[int] = []
        self.memory: dict[str, Any] = {}
        self.prompt_rows = 0
        self.encoded: Any = None

    def keep(self, nodes: Sequence[int]) -> None:
        """Of the rows the last forward added keep the first ``len(nodes)``; they are text, not a tree."""
        self.truncate(self.length + len(nodes))

    def truncate(self, length: int) -> None:
        """Drop all rows from ``length`` on. A memory cannot forget, so the next forward reads anew."""
        if length < len(self.token_ids):
            self.forget()
        del self.token_ids[length:]
        self.prompt_rows = min(self.prompt_rows, length)
        self.length = length

    def forget(self) -> None:
        """Drop the memory, not the text."""
        self.memory = {}
        self.encoded = None


class PlainBackend:
    """Runs a transformers model a token a step; decoder-only models, and what others share."""

    name = "plain"
    drafts = drafts_with_prompt = False

    def __init__(self, model: Any, new_memory: NewMemory | None = None) -> None:
        """``new_memory`` makes an empty cache where the model is not to make its own."""
        self.model = model.eval()
        self.config = model.config.get_text_config(decoder=True)
        self.device = model.get_input_embeddings().weight.device
        self.context_end = int(getattr(self.config, "max_position_embeddings", None) or 1 << 20)
        self._new_memory = new_memory
        self._takes = frozenset(inspect.signature(model.forward).parameters)

    def new_cache(self, capacity: int) -> PlainCache:
        """An empty cache; ``capacity`` bounds nothing here, the model's memory grows as it likes."""
        return PlainCache(capacity)

    @torch.inference_mode()
    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """Logits [last, vocabulary] of the last of T rows, of all for 0; the cache grows by T rows.

        Raises ValueError for rows that are not the next of a text.
        """
        assert isinstance(cache, PlainCache)
        cache.truncate(cache.length)
        start, end = cache.length, cache.length + len(rows.token_ids)
        if rows.positions.tolist() != list(range(start, end)):
            raise ValueError("a model that cannot verify a tree was given one")
        cache.token_ids += rows.token_ids.tolist()
        logits = self._read(cache, end - start, prompt=last == 1)
        return logits[-last:] if last else logits[start - end :]

    def forward_ranked(
        self, rows: QueryRows, cache: KVCache, count: int, last: int = 1
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """What ``forward`` gives for ``last``; ranks would only serve drafts."""
        return self.forward(rows, cache, last=last), []

    def _read(self, cache: PlainCache, rows: int, prompt: bool) -> torch.Tensor:
        """Logits [fed, vocabulary] after the text; at least of its last ``rows`` tokens, or of the last.

        Several tokens are always read from the start: to many recurrent layers a state and more than
        one token are two cases that exclude each other.
        """
        if rows > 1:
            cache.forget()
        return self._fed(cache, cache.token_ids, {}, 1 if prompt else rows)

    def _fed(
        self, cache: PlainCache, token_ids: list[int], keywords: dict[str, Any], logits: int
    ) -> torch.Tensor:
        """Feed the whole text, or the last token to a model that remembers the others."""
        first = not cache.memory
        if first and self._new_memory is not None:
            cache.memory = {"cache": self._new_memory()}
        if "position_ids" in self._takes and not self.model.config.is_encoder_decoder:
            keywords["position_ids"] = torch.arange(len(token_ids), device=self.device)[None]
        if "logits_to_keep" in self._takes:
            keywords["logits_to_keep"] = logits
        inputs = self.model.prepare_inputs_for_generation(
            torch.tensor([token_ids], dtype=torch.long, device=self.device),
            next_sequence_length=None if first else 1,
            is_first_iteration=first,
            use_cache=True,
            **cache.memory,
            **keywords,
        )
        output = self.model(**inputs, return_dict=True)
        returned = {name: output.get(name) for name in MEMORIES}
        cache.memory = {name: value for name, value in returned.items() if value is not None}
        found: torch.Tensor = output.logits[0]
        return found


class EncoderDecoderBackend(PlainBackend):
    """The prompt goes to the encoder, the answer comes from the decoder."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        wanted = model.generation_config
        start = getattr(wanted, "decoder_start_token_id", None)
        starts = [
            wanted.bos_token_id if start is None else start,
            getattr(wanted, "forced_bos_token_id", None),
        ]
        self.start_ids = [token for token in starts if token is not None]
        if not self.start_ids:
            raise ValueError("neither decoder_start_token_id nor bos_token_id is configured")

    def _read(self, cache: PlainCache, rows: int, prompt: bool) -> torch.Tensor:
        """The row of the prompt's last token is that of the decoder's start."""
        if prompt:
            cache.prompt_rows = len(cache.token_ids)
        if prompt or rows > 1:
            cache.forget()
        text = cache.token_ids[: cache.prompt_rows]
        mask = torch.ones(1, len(text), dtype=torch.long, device=self.device)
        if cache.encoded is None:
            ids = torch.tensor([text], dtype=torch.long, device=self.device)
            cache.encoded = self.model.get_encoder()(ids, attention_mask=mask, return_dict=True)
        keywords = {"attention_mask": mask, "encoder_outputs": cache.encoded}
        answer = [*self.start_ids, *cache.token_ids[cache.prompt_rows :]]
        return self._fed(cache, answer, keywords, 1 if prompt else rows)


def plain_backend(model: Any, generation: Any = None) -> PlainBackend:
    """The backend of a model that cannot verify trees, once a prompt and a step have gone through it.

    ``generation``: its generation configuration, which may ask for a quantised cache. Raises
    ModelUnavailable where the model cannot take a step.
    """
    family = model.config.model_type
    try:
        backend = (
            EncoderDecoderBackend(model)
            if model.config.is_encoder_decoder
            else PlainBackend(model, _quantized_memory(model.config, generation))
        )
        causal = _tried(backend)
    except ImportError as error:
        raise ModelUnavailable(
            f"this {family} model needs a package that is missing: {first_line(error)}",
            "install it, or choose another model: ragla models list",
        ) from error
    except Exception as error:  # model code, perhaps not transformers' own, raises whatever comes first
        raise ModelUnavailable(
            f"{family} models cannot be decoded here: {first_line(error)}",
            "choose another model: ragla models list",
        ) from error
    if not causal:
        raise ModelUnavailable(
            f"{family} models read a text from both ends: they write none",
            "choose another model: ragla models list",
        )
    return backend


def _tried(backend: PlainBackend) -> bool:
    """Take a prompt and a step; whether a second token leaves the logits of the first alone, as in a text.

    An encoder may read its prompt from both ends.
    """
    cache = backend.new_cache(3)
    alone = backend.forward(causal_rows([1], 0, backend.device), cache, last=1)
    cache.truncate(0)
    rows = causal_rows([1, 2], 0, backend.device)
    both = backend.forward(rows, cache, last=int(isinstance(backend, EncoderDecoderBackend)))
    cache.committed(2)
    backend.forward(causal_rows([3], 2, backend.device), cache)
    return len(both) < 2 or not (both[0] - alone[0]).norm() > 0.2 * alone.norm()


def _quantized_memory(config: Any, generation: Any) -> NewMemory | None:
    """Makes the cache in few bits that a generation configuration asks for; None where it does not."""
    if not asks_quantized_cache(generation):
        return None
    text = config.get_text_config(decoder=True)
    keys = {"backend": "quanto", "config": text, **(generation.cache_config or {})}
    return lambda: QuantizedCache(**keys)
