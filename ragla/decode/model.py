"""Loads a target model from a local folder into a backend. Never contacts a hub, never runs foreign code
unless it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils.logging import disable_progress_bar

from ragla.decode.backend import Backend
from ragla.decode.backend.cpu import ATTENTION, CpuBackend, pack_linears
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.backend.integer import load_integer_model
from ragla.decode.backend.linears import integers_available
from ragla.decode.tree_attention import causal_rows
from ragla.errors import ModelUnavailable, UsageError

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]

# families whose attention the cpu backend's tests hold against their own
CPU_FAMILIES = {
    "llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "glm", "glm4", "gpt2", "smollm3", "olmo2",
    "granite", "phi3", "starcoder2", "stablelm", "opt", "gptj", "gpt_neox", "phi", "cohere2", "exaone4",
}  # fmt: skip


@dataclass(frozen=True)
class LoadSettings:
    """How to load: see the profile keys of these names. ``integers`` is the folder for 8-bit weights."""

    backend: Literal["auto", "eager", "cpu"] = "auto"
    device: str = "auto"
    dtype: Dtype = "auto"
    threads: int = 0
    quantization: dict[str, Any] | None = None
    trust_remote_code: bool = False
    integers: Path = Path("integers")


@dataclass(frozen=True)
class TargetModel:
    """A model ready to decode. ``notices`` say in a line each what was not done as asked."""

    backend: Backend
    tokenizer: Any
    end_ids: frozenset[int]
    dtype: str
    notices: tuple[str, ...] = ()


def load_target(folder: Path, settings: LoadSettings) -> TargetModel:
    """Load model and tokenizer from ``folder``.

    Raises ModelUnavailable when the folder holds no usable model, UsageError for settings that do not fit
    this machine.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = _device(settings.device)
    if not folder.is_dir():  # else the name would be looked up in the hub's cache
        raise ModelUnavailable(f"{folder}: no such folder", "pull the model: ragla models pull NAME")
    config = _read("configuration", AutoConfig, folder, settings)
    tokenizer = _read("tokenizer", AutoTokenizer, folder, settings)
    notices: list[str] = []
    family = config.get_text_config().model_type
    backend_name = _backend_name(settings, device, family)
    dtype = _dtype(settings.dtype, backend_name, config, notices)
    backend: EagerBackend
    if backend_name == "cpu":
        backend = _cpu_backend(folder, config, dtype, settings, notices)
    else:
        backend = EagerBackend(_read_model(folder, getattr(torch, dtype), settings).to(device))
    if family not in CPU_FAMILIES:
        _try(backend, family)
    if not backend.drafts:
        notices.append(f"{config.model_type} cannot verify a draft tree: decoding one token a step")
    end_ids = _end_ids(folder, config, tokenizer, settings)
    return TargetModel(backend, tokenizer, end_ids, dtype, tuple(notices))


def _cpu_backend(
    folder: Path, config: Any, dtype: str, settings: LoadSettings, notices: list[str]
) -> CpuBackend:
    if dtype == "int8":
        try:
            return CpuBackend(load_integer_model(folder, config, settings.integers))
        except (KeyError, RuntimeError, SafetensorError) as error:
            raise _unloadable(folder, error) from error
    model = _read_model(folder, torch.float32, settings, attention=ATTENTION)
    if torch._C._has_mkldnn:
        pack_linears(model)
    else:
        notices.append("this processor has no oneDNN: linears stay unpacked and trees cost more")
    return CpuBackend(model)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in available:
        raise UsageError(f"decode.device: no such device {name!r}", "use cpu, cuda, cuda:0 or mps")
    if not available[device.type]:
        raise UsageError(
            f"decode.device: this machine offers no {device.type}", "use --set decode.device=cpu"
        )
    return device


def _backend_name(settings: LoadSettings, device: torch.device, family: str) -> str:
    if settings.backend == "cpu" and device.type != "cpu":
        raise UsageError("decode.backend cpu needs decode.device cpu", "use --set decode.device=cpu")
    if settings.backend == "cpu" and family not in CPU_FAMILIES:
        raise UsageError(f"the cpu backend does not know {family} models", "use --set decode.backend=eager")
    if settings.backend == "cpu" and settings.quantization is not None:
        raise UsageError(
            "the cpu backend does not run decode.quantization",
            "use --set decode.backend=eager, or decode.dtype=int8",
        )
    if settings.backend != "auto":
        return settings.backend
    if settings.quantization is not None or settings.dtype in ("bfloat16", "float16"):
        return "eager"
    return "cpu" if device.type == "cpu" and family in CPU_FAMILIES else "eager"


def _dtype(asked: str, backend: str, config: Any, notices: list[str]) -> str:
    if backend != "cpu":
        if asked == "int8":
            raise UsageError(
                "decode.dtype int8 runs on the cpu backend",
                "use --set decode.backend=cpu, or decode.quantization",
            )
        stored = str(getattr(config, "dtype", None) or torch.float32).removeprefix("torch.")
        return stored if asked == "auto" else asked
    if asked == "int8" and not integers_available():
        notices.append("this processor has no 8-bit kernels in torch: computing in float32")
        return "float32"
    if asked in ("bfloat16", "float16"):
        raise UsageError(f"the cpu backend has no {asked}", "use --set decode.dtype=int8, or float32")
    return "float32" if asked == "auto" else asked


def _read(what: str, reader: Any, folder: Path, settings: LoadSettings) -> Any:
    try:
        return reader.from_pretrained(
            folder, local_files_only=True, trust_remote_code=settings.trust_remote_code
        )
    except Exception as error:  # on a broken file the libraries raise whatever comes first
        raise ModelUnavailable(
            f"{folder}: no usable {what}: {_first_line(error)}",
            "pull the model again: ragla models pull NAME",
        ) from error


def _read_model(
    folder: Path, dtype: torch.dtype, settings: LoadSettings, attention: str | None = None
) -> Any:
    keywords: dict[str, Any] = {"dtype": dtype, "local_files_only": True, "output_loading_info": True}
    keywords["trust_remote_code"] = settings.trust_remote_code
    if attention is not None:
        keywords["attn_implementation"] = attention
    if settings.quantization is not None:
        keywords["quantization_config"] = dict(settings.quantization)
    reader: Any = AutoModelForCausalLM
    try:
        model, loading = reader.from_pretrained(folder, **keywords)
    except ImportError as error:
        raise ModelUnavailable(
            f"this model needs a package that is missing: {_first_line(error)}",
            "pip install 'ragla[quantized]'",
        ) from error
    except Exception as error:
        raise _unloadable(folder, error) from error
    if missing := sorted(loading["missing_keys"]):  # transformers would make them up
        raise _unloadable(folder, f"{len(missing)} tensors are missing, {missing[0]} for one")
    return model


def _unloadable(folder: Path, reason: Exception | str) -> ModelUnavailable:
    text = reason if isinstance(reason, str) else _first_line(reason)
    return ModelUnavailable(
        f"{folder}: the model cannot be loaded: {text}", "pull the model again: ragla models pull NAME"
    )


def _try(backend: EagerBackend, family: str) -> None:
    """Run a token through a family nobody has tested: some keep a memory of another kind than rows."""
    cache = backend.new_cache(1)
    try:
        backend.forward(causal_rows([0], 0, backend.device), cache)
        kept = max(layer.length for layer in cache.rows)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        kept = 0
    if not kept or "chunked_attention" in backend.layer_types:
        raise ModelUnavailable(
            f"{family} models do not keep keys and values row by row: they cannot be decoded here",
            "choose another model: ragla models list",
        )


def _end_ids(folder: Path, config: Any, tokenizer: Any, settings: LoadSettings) -> frozenset[int]:
    """Every id that ends an answer: of the generation config, the model config and the tokenizer."""
    found: list[Any] = [config.get_text_config().eos_token_id, tokenizer.eos_token_id]
    if (folder / "generation_config.json").exists():
        found.append(_read("generation configuration", GenerationConfig, folder, settings).eos_token_id)
    ids: set[int] = set()
    for entry in found:
        ids.update(entry if isinstance(entry, (list, tuple)) else [] if entry is None else [entry])
    return frozenset(ids)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
