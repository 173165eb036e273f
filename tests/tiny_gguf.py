"""Tiny random models written as GGUF files the way llama.cpp's converter writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w")
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
LEAVES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def vocabulary() -> list[str]:
    """Specials, the 256 bytes in GPT-2's spelling, and what the merges make."""
    return [*SPECIALS, *bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in MERGES)]


def random_model(architecture: str) -> Any:
    """A two-layer model with grouped queries: llama ties its embeddings, qwen2 has biases and does not."""
    sizes: dict[str, Any] = {
        "vocab_size": len(vocabulary()),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
    }
    torch.manual_seed(1)
    if architecture == "llama":
        model: Any = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=True))
    else:
        model = Qwen2ForCausalLM(Qwen2Config(**sizes, tie_word_embeddings=False))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter) + (1.0 if parameter.ndim == 1 else 0.0))
    return model.eval()


def write_gguf(
    path: Path,
    model: Any,
    *,
    pre: str = "smollm",
    quantised: bool = False,
    without: str | None = None,
    extra: dict[str, str] | None = None,
    architecture: str | None = None,
) -> Path:
    """Write ``model``; ``without`` leaves out one tensor, ``extra`` adds text metadata."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture or config.model_type)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    for key, value in (extra or {}).items():
        writer.add_string(key, value)
    _write_tokenizer(writer, pre)
    for name, tensor in _tensors(model):
        if name == without:
            continue
        if quantised and tensor.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_tokenizer(writer: Any, pre: str) -> None:
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIALS else 1 for token in tokens])
    writer.add_token_merges(list(MERGES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _tensors(model: Any) -> list[tuple[str, np.ndarray]]:
    written = []
    for name, parameter in model.named_parameters():
        array = parameter.detach().numpy()
        stem, _, suffix = name.rpartition(".")
        if stem.startswith("model.layers."):
            layer, leaf = stem.removeprefix("model.layers.").split(".", 1)
            written.append((f"blk.{layer}.{LEAVES[leaf]}.{suffix}", _permuted(model.config, leaf, array)))
        else:
            top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}[stem]
            written.append((f"{top}.{suffix}", array))
    return written


def _permuted(config: Any, leaf: str, array: np.ndarray) -> np.ndarray:
    """llama.cpp stores llama's query and key rows with the two rotary halves interleaved."""
    heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
    if config.model_type != "llama" or leaf not in heads:
        return array
    split = array.reshape(heads[leaf], 2, -1, *array.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(array.shape))
