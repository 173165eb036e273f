"""GGUF files become folders that transformers can read: float16 safetensors, config, tokenizer.

Tensors are streamed: one is dequantised by rows, rounded and set aside until a shard is full, so the
peak is about one shard and not the whole model in float32. Names, layouts and the vocabulary come from
transformers' own GGUF tables; whatever those tables do not cover is refused, never dropped.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragla.errors import ModelUnavailable

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedConfig
    from transformers.integrations.gguf.reader import LazyGgufTensor, TensorInfo

OnTensor = Callable[[int, int], None]
"""Called with (bytes of the file read so far, bytes in all)."""

ARCHITECTURES = ("llama", "qwen2", "qwen3")
SHARD_BYTES = 1 << 29
# Elements dequantised at once: 64 MiB of float32, a few times that with the unpacking's temporaries.
CHUNK_ELEMENTS = 1 << 24
# llama.cpp ends an answer at any of these control tokens, whichever of them the file calls eos.
END_OF_ANSWER = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>")
CONTROL = 3
NON_PARAMETERS = ("rope_freqs.weight",)


def convert_gguf(source: Path, folder: Path, on_tensor: OnTensor = lambda done, total: None) -> None:
    """Write the model in ``source`` to the existing, empty ``folder``.

    The weights are float16, sharded at 512 MiB; a missing output matrix stays tied to the embedding.
    Raises ModelUnavailable for a file that is no GGUF, is cut short, or holds what is not supported.
    """
    try:
        _convert(source, folder, on_tensor)
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise ModelUnavailable(
            f"{source} cannot be read as a GGUF model: {_one_line(error)}",
            hint="download the file again, or use a folder with safetensors weights",
        ) from error


def _convert(source: Path, folder: Path, on_tensor: OnTensor) -> None:
    from transformers.integrations.gguf.reader import GgufHeader, load_gguf_state_dict, read_gguf_metadata

    if source.stat().st_size < 64:
        raise ValueError("the file is too short")
    metadata, _ = read_gguf_metadata(str(source), ("tokenizer.ggml.tokens",))
    _refuse_unsupported(source, metadata)
    header = GgufHeader.from_file(str(source))
    infos = {info.name: info for info in header.tensors}
    _check_complete(source, header.data_start, infos)
    config = read_config(metadata, infos)
    names = _parameter_names(config, infos)
    tensors = _parameters(load_gguf_state_dict(header), infos, names, config, on_tensor)
    _write_shards(tensors, folder)
    config.save_pretrained(folder)
    write_tokenizer(source, metadata, folder)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _refuse_unsupported(source: Path, metadata: Mapping[str, Any]) -> None:
    architecture = metadata["general.architecture"]
    if architecture not in ARCHITECTURES:
        raise ModelUnavailable(
            f"{source} holds a model of architecture {architecture}; "
            f"GGUF is read for {', '.join(ARCHITECTURES)}",
            hint="use the model's safetensors folder or hub id instead",
        )
    if f"{architecture}.rope.scaling.type" in metadata:
        raise ModelUnavailable(
            f"{source} uses scaled rotary positions, which are not read from GGUF files",
            hint="use the model's safetensors folder or hub id instead",
        )


def _check_complete(source: Path, data_start: int, infos: Mapping[str, TensorInfo]) -> None:
    end = max((data_start + info.offset + info.nbytes for info in infos.values()), default=data_start)
    if (found := source.stat().st_size) < end:
        raise ValueError(f"the file ends at byte {found}, its tensors need {end}")


def read_config(metadata: Mapping[str, Any], infos: Mapping[str, TensorInfo]) -> PreTrainedConfig:
    """The transformers config that the file's metadata describes.

    The vocabulary size is the embedding's row count: the token list may be padded or short of it.
    """
    from transformers import AutoConfig

    architecture = metadata["general.architecture"]
    values = {
        ours: metadata[f"{architecture}.{theirs}"]
        for theirs, ours in _gguf_tables().GGUF_CONFIG_MAPPING[architecture].items()
        if ours is not None and f"{architecture}.{theirs}" in metadata
    }
    values["vocab_size"] = infos["token_embd.weight"].shape[0]
    config = AutoConfig.for_model(
        architecture,
        **values,
        tie_word_embeddings="output.weight" not in infos,
        bos_token_id=metadata.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=metadata.get("tokenizer.ggml.eos_token_id"),
        pad_token_id=metadata.get("tokenizer.ggml.padding_token_id"),
    )
    config.dtype = "float16"
    config.architectures = [type(_skeleton(config)).__name__]
    return config


def _gguf_tables() -> Any:
    """transformers' module of GGUF tables; Any, because it has no annotations."""
    from transformers import modeling_gguf_pytorch_utils

    return modeling_gguf_pytorch_utils


def _skeleton(config: PreTrainedConfig) -> Any:
    """The model without memory for its weights: parameter names and shapes only."""
    import torch
    from transformers import AutoModelForCausalLM

    build: Any = AutoModelForCausalLM.from_config
    with torch.device("meta"):
        return build(config)


def _parameter_names(config: PreTrainedConfig, infos: Mapping[str, TensorInfo]) -> dict[str, str]:
    """GGUF name → parameter name; every tensor of the file and every parameter is accounted for."""
    tables, model = _gguf_tables(), _skeleton(config)
    names: dict[str, str] = tables.get_gguf_hf_weights_map(model, tables.TensorProcessor())
    if unknown := sorted(set(infos) - set(names) - set(NON_PARAMETERS)):
        raise ValueError(f"tensor {unknown[0]} has no place in a {config.model_type} model")
    optional = {"output.weight"} if config.tie_word_embeddings else set()
    if missing := sorted(set(names) - set(infos) - optional):
        raise ValueError(f"tensor {missing[0]} is missing")
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, info in infos.items():
        if name in names and shapes[names[name]] != info.shape:
            raise ValueError(f"tensor {name} has shape {info.shape}, the model needs {shapes[names[name]]}")
    return {name: names[name] for name in infos if name in names}


def _parameters(
    tensors: Mapping[str, LazyGgufTensor],
    infos: Mapping[str, TensorInfo],
    names: Mapping[str, str],
    config: PreTrainedConfig,
    on_tensor: OnTensor,
) -> Iterator[tuple[str, torch.Tensor]]:
    """(parameter name, float16 tensor), one at a time in the file's order."""
    import torch

    tables = _gguf_tables()
    processor = tables.TENSOR_PROCESSORS.get(config.model_type, tables.TensorProcessor)(
        config=config.to_dict()
    )
    total = sum(info.nbytes for info in infos.values())
    done = 0
    for name, parameter in names.items():
        half = _dequantised(tensors[name], infos[name])
        # llama's query and key rows are stored in another order; every other tensor passes unchanged
        laid_out = processor.process(weights=half.numpy(), name=name).weights
        tensor = torch.from_numpy(laid_out).contiguous()
        if not torch.isfinite(tensor).all():
            raise ValueError(f"tensor {name} does not fit float16")
        yield parameter, tensor
        done += infos[name].nbytes
        on_tensor(done, total)


def _dequantised(lazy: LazyGgufTensor, info: TensorInfo) -> torch.Tensor:
    """The tensor in float16, unpacked in float32 by chunks of whole rows."""
    import torch
    from transformers.integrations.gguf.dequant import GGML_BLOCK, dequantize

    packed = lazy[...]
    if info.ggml_type not in GGML_BLOCK:
        return packed.to(torch.float16)
    packed = packed.reshape(-1, packed.shape[-1])
    rows, columns = packed.shape[0], info.shape[-1]
    out = torch.empty((rows, columns), dtype=torch.float16)
    step = max(1, CHUNK_ELEMENTS // columns)
    for start in range(0, rows, step):
        chunk = dequantize(packed[start : start + step], info.ggml_type, torch.float32)
        out[start : start + step] = chunk.reshape(-1, columns)
    return out.reshape(info.shape)


def _write_shards(tensors: Iterator[tuple[str, torch.Tensor]], folder: Path) -> None:
    """Safetensors shards with the index that transformers expects."""
    from safetensors.torch import save_file

    shard: dict[str, torch.Tensor] = {}
    where: dict[str, int] = {}
    count = held = total = 0

    def flush() -> None:
        nonlocal shard, count, held
        save_file(shard, folder / f"shard-{count}.safetensors", metadata={"format": "pt"})
        shard, count, held = {}, count + 1, 0

    for name, tensor in tensors:
        if shard and held + tensor.nbytes > SHARD_BYTES:
            flush()
        shard[name], where[name] = tensor, count
        held, total = held + tensor.nbytes, total + tensor.nbytes
    flush()
    final = [f"model-{n + 1:05d}-of-{count:05d}.safetensors" for n in range(count)]
    for n, filename in enumerate(final):
        (folder / f"shard-{n}.safetensors").rename(folder / filename)
    index = {"metadata": {"total_size": total}, "weight_map": {name: final[n] for name, n in where.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1), encoding="utf-8")


def write_tokenizer(source: Path, metadata: Mapping[str, Any], folder: Path) -> None:
    """Tokenizer with its chat template, and the generation config with every end-of-answer token."""
    from transformers import GenerationConfig, PreTrainedTokenizerFast
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        convert_gguf_tokenizer,
        get_gguf_tokenizer,
    )

    architecture, vocabulary, settings = get_gguf_tokenizer(str(source))
    backend, _ = convert_gguf_tokenizer(architecture, vocabulary)
    _set_splitting(backend, vocabulary.get("pre_tokenizer_type"))
    tokenizer_class: Any = PreTrainedTokenizerFast
    tokenizer_class(
        tokenizer_object=backend,
        model_max_length=metadata[f"{architecture}.context_length"],
        clean_up_tokenization_spaces=False,
        **settings,
    ).save_pretrained(folder)
    generation_config_class: Any = GenerationConfig
    generation_config_class(
        do_sample=False,
        bos_token_id=metadata.get("tokenizer.ggml.bos_token_id"),
        pad_token_id=metadata.get("tokenizer.ggml.padding_token_id"),
        eos_token_id=end_of_answer_ids(metadata),
    ).save_pretrained(folder)


def _set_splitting(backend: Tokenizer, scheme: str | None) -> None:
    """Two vocabularies that transformers' GGUF tables leave at GPT-2's splitting.

    SmolLM2 learnt its merges on single digits, Qwen2 on NFC text (their published tokenizer.json).
    """
    from tokenizers import normalizers, pre_tokenizers

    if scheme == "smollm":
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    elif scheme == "qwen2":
        backend.normalizer = normalizers.NFC()


def end_of_answer_ids(metadata: Mapping[str, Any]) -> list[int]:
    """Ids that end an answer: the file's eos first, then the other control tokens that mean it."""
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata.get("tokenizer.ggml.token_type")
    named = [
        position
        for position, token in enumerate(tokens)
        if token in END_OF_ANSWER and (types is None or types[position] == CONTROL)
    ]
    declared = metadata.get("tokenizer.ggml.eos_token_id")
    return list(dict.fromkeys([*([] if declared is None else [declared]), *named]))
