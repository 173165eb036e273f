"""Configurations of tiny models of many families, whatever each of them calls its sizes.

A name is a family, or a family and a variant: ``qwen2-window`` is qwen2 with a sliding window.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

VOCABULARY = 120
WINDOW = 1024
END = 2

_BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": WINDOW,
    "initializer_range": 0.5,  # the usual 0.02 makes a random model repeat one token
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": END,
}
_MIXED: dict[str, Any] = {
    "num_hidden_layers": 3,
    "sliding_window": 9,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
_UNTIED: dict[str, Any] = {"tie_word_embeddings": False}  # else a token scores best after itself, for ever
_EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}
_GROUPED_EXPERTS: dict[str, Any] = {
    **_EXPERTS,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
_LATENT: dict[str, Any] = {  # keys and values from one low-rank product, as in DeepSeek
    **_GROUPED_EXPERTS,
    "num_key_value_heads": 4,
    "head_dim": 4,
    "kv_lora_rank": 12,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
_GPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": WINDOW,
    "initializer_range": 0.5,
    "bos_token_id": 1,
    "eos_token_id": END,
}
_BLOOM: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "n_layer": 2,
    "n_head": 4,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": END,
    "pad_token_id": 0,
    **_UNTIED,
}
_STATES: dict[str, Any] = {  # of layers with a state instead of rows
    "state_size": 8,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
_DELTA: dict[str, Any] = {  # gated delta layers
    **_EXPERTS,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "shared_expert_intermediate_size": 16,
}
_ENCODER_DECODER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": WINDOW,
    "init_std": 1.0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": END,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}
_T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "initializer_factor": 4.0,
    "pad_token_id": 0,
    "eos_token_id": END,
    "decoder_start_token_id": 0,
}

_WHOLE: dict[str, dict[str, Any]] = {
    "gpt2": _GPT,
    "gptj": {**_GPT, "rotary_dim": 4},
    "codegen": {**_GPT, "rotary_dim": 4},
    "gpt_bigcode": _GPT,
    "bloom": _BLOOM,
    "mpt": {"vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": WINDOW,
            "initializer_range": 0.5, "bos_token_id": 1, "eos_token_id": END},
    "bart": _ENCODER_DECODER,
    "t5": _T5,
    "mt5": {**_T5, "tie_word_embeddings": False},
    "umt5": _T5,
    "longt5": _T5,
    "mbart": _ENCODER_DECODER,
    "pegasus": _ENCODER_DECODER,
}  # fmt: skip
_OWN: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": 11},
    "mistral-whole": {"sliding_window": None},
    "starcoder2": {"sliding_window": 11},
    "phi3": {"sliding_window": 11},
    "qwen2-window": {"use_sliding_window": True, "sliding_window": 10, "max_window_layers": 1},
    "qwen3-window": {"use_sliding_window": True, "sliding_window": 10, "max_window_layers": 1},
    "gemma2": {**_MIXED, **_UNTIED},
    "gemma3_text": {**_MIXED, **_UNTIED},
    "gemma3": {**_UNTIED, "text_config": {**_BASE, **_MIXED, **_UNTIED}, "vision_config": {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "image_size": 16, "patch_size": 8}},
    "cohere2": {**_MIXED, "layer_norm_eps": 1e-5},
    "exaone4": _MIXED,
    "olmo3": _MIXED,
    "cwm": _MIXED,
    "ministral": _MIXED,
    "vaultgemma": _MIXED,
    "apertus": {"initializer_range": 0.2},
    "nemotron": {"initializer_range": 0.2},
    "opt": {"word_embed_proj_dim": 32, "init_std": 0.5},
    "falcon": {"head_dim": None, "multi_query": True},
    "falcon-new": {"head_dim": None, "new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon-alibi": {"head_dim": None, "alibi": True, "multi_query": False},
    "gpt_oss": {**_EXPERTS, **_MIXED},
    "mixtral": {**_EXPERTS, "sliding_window": 11},
    "qwen2_moe": {**_EXPERTS, "shared_expert_intermediate_size": 16},
    "qwen3_moe": _EXPERTS,
    "phimoe": {**_EXPERTS, "sliding_window": 11},
    "ernie4_5_moe": {**_EXPERTS, "moe_num_experts": 4, "moe_k": 2, "moe_layer_start_index": 0},
    "hunyuan_v1_moe": _EXPERTS,
    "granitemoe": _EXPERTS,
    "granitemoeshared": _EXPERTS,
    "olmoe": _EXPERTS,
    "flex_olmo": _EXPERTS,
    "jetmoe": {**_EXPERTS, "kv_channels": 8, "num_key_value_heads": 2},
    "minimax_m2": _EXPERTS,
    "glm4_moe": _GROUPED_EXPERTS,
    "dots1": {**_GROUPED_EXPERTS, **_MIXED},
    "afmoe": {**_EXPERTS, **_MIXED, "num_shared_experts": 1, "num_dense_layers": 1},
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "minimax": {**_EXPERTS, "layer_types": ["linear_attention", "full_attention"], "block_size": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4,
                "window_size": 8},
    "llama4_text": {**_EXPERTS, "attention_chunk_size": 16, "intermediate_size_mlp": 48},
    "mamba": _STATES,
    "mamba2": {**_STATES, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
    "falcon_mamba": _STATES,
    "falcon_h1": {**_STATES, "mamba_d_ssm": 64},
    "jamba": {**_EXPERTS, **_STATES, "num_hidden_layers": 4, "attn_layer_offset": 1, "attn_layer_period": 2,
              "use_mamba_kernels": False, "mamba_dt_rank": 4},
    "bamba": {**_STATES, "attn_layer_indices": [1]},
    "olmo_hybrid": {**_DELTA, "num_attention_heads": 4},
    "granitemoehybrid": {**_EXPERTS, **_STATES, "layer_types": ["mamba", "attention"],
                         "shared_intermediate_size": 16},
    "nemotron_h": {**_STATES, "layers_block_type": ["mamba", "attention"], "ssm_state_size": 8,
                   "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1, "chunk_size": 8},
    "zamba2": {**_STATES, "layers_block_type": ["mamba", "hybrid"], "n_mamba_heads": 4, "mamba_ngroups": 1,
               "attention_head_dim": 16, "num_mem_blocks": 1, "chunk_size": 8},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {**_EXPERTS, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "qwen3_next": _DELTA,
    "qwen3_5_text": _DELTA,
    "recurrent_gemma": {**_UNTIED, "num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 12},
    "rwkv": {"attention_hidden_size": 32},
}  # fmt: skip


def known_family(name: str) -> bool:
    """Whether the installed transformers has this family."""
    return name.split("-")[0] in CONFIG_MAPPING_NAMES


def tiny_config(name: str, **changes: Any) -> Any:
    """A transformers config of this family or variant; ``changes`` replace keys, with None for none."""
    keys = _WHOLE.get(name) or {**_BASE, **_OWN.get(name, {})}
    keys = {key: value for key, value in {**keys, **changes}.items() if key != "head_dim" or value}
    return AutoConfig.for_model(name.split("-")[0], **keys)
