"""Any stock transformers model whose trees can be verified, on any device, its model file untouched."""

from __future__ import annotations

from typing import Any

import torch

from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import QueryRows
from ragla.decode.verify import best_ids

RANKED_ROWS = 64  # rows of logits held at once when a prompt is ranked


class EagerBackend:
    """Runs a transformers model of a drafting family with explicit masks, one per kind of layer.

    The masks are additive, [1, 1, T, prefix + T] in the model's dtype, which sdpa and the models' own
    attention both take. A model with sliding layers gets a dict of them: given one mask only, it would
    silently lose the window.
    """

    name = "eager"
    drafts = True
    drafts_with_prompt = True

    def __init__(self, model: Any, cache_dtype: torch.dtype | None = None) -> None:
        self.model = model.eval()
        self.config = model.config.get_text_config()
        self.device = model.get_input_embeddings().weight.device
        self.context_end = int(getattr(self.config, "max_position_embeddings", None) or 1 << 20)
        self.layer_types = list(getattr(self.config, "layer_types", None) or [])
        self.window = _window(self.config)
        self._cache_dtype = cache_dtype
        self._mask_dtype = model.dtype

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of ``capacity`` rows."""
        return KVCache(self.config.num_hidden_layers, capacity, self._cache_dtype)

    @torch.inference_mode()
    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """Logits [last, vocabulary] of the last of T rows, of all for 0; the cache grows by T rows."""
        output = self.model(
            input_ids=rows.token_ids[None],
            position_ids=rows.positions[None],
            attention_mask=self._masks(rows),
            cache=cache,
            use_cache=True,
            logits_to_keep=last,
        )
        logits: torch.Tensor = output.logits[0]
        return logits

    @torch.inference_mode()
    def forward_ranked(
        self, rows: QueryRows, cache: KVCache, count: int, last: int = 1
    ) -> tuple[torch.Tensor, list[list[int]]]:
        """What ``forward`` gives for ``last``, the same bits, and the ``count`` best ids after every row.

        Only the vocabulary product is done for all rows, a block at a time, beside the one of the last rows:
        in a product of other rows their logits could have other bits.
        """
        body, head = self.model.base_model, self.model.get_output_embeddings()
        seen: list[torch.Tensor] = []
        if body is self.model or head is None:
            return self.forward(rows, cache, last=last), []
        hook = body.register_forward_hook(lambda _module, _args, output: seen.append(output[0]))
        try:
            logits = self.forward(rows, cache, last=last)
        finally:
            hook.remove()
        ranked: list[list[int]] = []
        hidden = seen[0][0]
        for start in range(0, len(hidden), RANKED_ROWS):
            ranked += best_ids(head(hidden[start : start + RANKED_ROWS]), count)
        return logits, ranked

    def _masks(self, rows: QueryRows) -> torch.Tensor | dict[str, torch.Tensor]:
        if "sliding_attention" in self.layer_types:
            masks = {"full_attention": self._additive(rows.visible)}
            masks["sliding_attention"] = self._additive(rows.within(self.window or 1 << 30))
            return {kind: masks[kind] for kind in set(self.layer_types)}
        if self.window is not None and not self.layer_types:
            return self._additive(rows.within(self.window))
        return self._additive(rows.visible)

    def _additive(self, visible: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(visible.shape, dtype=self._mask_dtype, device=visible.device)
        return mask.masked_fill_(~visible, torch.finfo(self._mask_dtype).min)[None, None]


class BloomBackend(EagerBackend):
    """Bloom adds to every score a bias that grows with the key's place, its alibi.

    Bloom reckons that place from a mask of padding; in a tree it is the key's position instead.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._ladder = model.base_model.build_alibi_tensor
        self._key_positions = torch.empty(0, dtype=torch.long)
        model.base_model.build_alibi_tensor = self._alibi

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        """Logits [last, vocabulary] of the last of T rows, of all for 0; the cache grows by T rows."""
        self._key_positions = rows.key_positions
        return super().forward(rows, cache, last=last)

    def _alibi(self, mask: torch.Tensor, heads: int, dtype: torch.dtype) -> torch.Tensor:
        """Bias [heads, 1, prefix + T]."""
        places = torch.ones(1, int(self._key_positions.max()) + 1, device=mask.device)
        ladder: torch.Tensor = self._ladder(places, heads, dtype)
        return ladder[:, :, self._key_positions]


def _window(config: Any) -> int | None:
    window = getattr(config, "sliding_window", None)
    if not window or getattr(config, "use_sliding_window", True) is False:
        return None
    return int(window)
