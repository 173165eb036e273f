"""Which model families verify draft trees, and why the others are decoded a token a step.

A tree is exact where tokens attend to nothing but rows of keys and values, and where a mask and a
position say all about who sees whom. Whether a family is like that only a test can tell, so the
families are listed by name: each is held against its own attention in ``tests/decode/test_matrix.py``.
"""

from __future__ import annotations

from typing import Any

from transformers import DynamicCache
from transformers.cache_utils import LinearAttentionCacheLayerMixin

DRAFTING_FAMILIES = frozenset({
    "afmoe", "apertus", "arcee", "bloom", "codegen", "cohere", "cohere2", "cwm", "deepseek_v2",
    "deepseek_v3", "diffllama", "dots1", "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "falcon",
    "flex_olmo", "gemma", "gemma2", "gemma3", "gemma3_text", "glm", "glm4", "glm4_moe", "gpt2",
    "gpt_bigcode", "gpt_neox", "gpt_oss", "gptj", "granite", "granitemoe", "granitemoeshared", "helium",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "hyperclovax", "internlm3", "jais2", "jetmoe", "llama",
    "minimax_m2", "ministral", "ministral3", "mistral", "mixtral", "nanochat", "nemotron", "olmo", "olmo2",
    "olmo3", "olmoe", "opt", "persimmon", "phi", "phi3", "phimoe", "qwen2", "qwen2_moe", "qwen3",
    "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2", "vaultgemma",
})  # fmt: skip
MASKED_LAYERS = {"full_attention", "sliding_attention"}
# families with a state that transformers keeps outside its DynamicCache
OWN_STATE = {"minimax", "rwkv", "xlstm"}


def why_plain(config: Any, generation: Any = None, own_code: bool = False) -> str | None:
    """What keeps a model from verifying draft trees, as the start of a sentence; None where nothing does.

    ``config`` and ``generation`` are transformers' model and generation configurations. ``own_code``: the
    model's class is not one of transformers', so its family's name proves nothing.
    """
    family = config.model_type
    text = config.get_text_config(decoder=True)
    if config.is_encoder_decoder:
        return f"{family} is an encoder–decoder"
    if asks_quantized_cache(generation):
        return f"this {family} model's generation_config.json asks for a quantised cache"
    if _keeps_state(text):
        return f"{family} keeps a recurrent state, which rejected drafts would spoil"
    if own_code:
        return "the model brings its own code, whose attention no test has seen"
    if getattr(text, "alibi", False) and family != "bloom":
        return f"this {family} model tells positions apart by their place in the cache (alibi)"
    if other := set(getattr(text, "layer_types", None) or ()) - MASKED_LAYERS:
        return f"{family} has layers of another kind ({', '.join(sorted(other))})"
    if not {family, text.model_type} <= DRAFTING_FAMILIES:
        return f"no test holds the draft trees of {family} models against their own attention"
    return None


def asks_quantized_cache(generation: Any) -> bool:
    """Whether a generation configuration asks for keys and values in few bits."""
    return getattr(generation, "cache_implementation", None) == "quantized"


def _keeps_state(text: Any) -> bool:
    """Whether a layer keeps a state instead of rows, or beside them."""
    if text.model_type in OWN_STATE:
        return True
    try:
        layers = DynamicCache(config=text).layers
    except (AttributeError, KeyError, TypeError, ValueError):  # a configuration it cannot read: not its kind
        return False
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in layers)
