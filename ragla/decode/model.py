"""Loads a target model from a local folder into a backend. Never contacts a hub, never runs foreign code
unless it is told to.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from ragla.decode.backend import Backend
from ragla.decode.backend.cpu import ATTENTION, CpuBackend, pack_linears
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.backend.integer import load_integer_model
from ragla.decode.backend.linears import integers_available
from ragla.errors import ModelUnavailable, UsageError

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]

# families whose attention the cpu backend's tests hold against their own
CPU_FAMILIES = {
    "llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "glm", "glm4", "gpt2", "smollm3", "olmo2",
    "granite", "phi3", "starcoder2", "stablelm",
}  # fmt: skip


@dataclass(frozen=True)
class LoadSettings:
    """How to load: see the profile keys of these names. ``integers`` is the folder that keeps 8-bit weights."""

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
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = _device(settings.device)
    config = _read("configuration", AutoConfig, folder, settings)
    tokenizer = _read("tokenizer", AutoTokenizer, folder, settings)
    notices: list[str] = []
    backend_name = _backend_name(settings, device, config.get_text_config().model_type)
    dtype = _dtype(settings.dtype, backend_name, config, notices)
    backend: EagerBackend
    if backend_name == "cpu":
        backend = _cpu_backend(folder, config, dtype, settings, notices)
    else:
        backend = EagerBackend(_read_model(folder, getattr(torch, dtype), settings).to(device))
    if not backend.drafts:
        notices.append(f"{config.model_type} cannot verify a draft tree: decoding one token a step")
    return TargetModel(backend, tokenizer, _end_ids(folder, config, tokenizer), dtype, tuple(notices))


def _cpu_backend(
    folder: Path, config: Any, dtype: str, settings: LoadSettings, notices: list[str]
) -> CpuBackend:
    if dtype == "int8":
        return CpuBackend(load_integer_model(folder, config, settings.integers))
    model = _read_model(folder, torch.float32, settings, attention=ATTENTION)
    if torch._C._has_mkldnn:
        pack_linears(model)
    else:
        notices.append("this processor has no oneDNN: linears stay unpacked and trees cost more")
    return CpuBackend(model)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"decode.device: no such device {name!r}", "use cpu, cuda, cuda:0 or mps") from None
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device.type, True):
        raise UsageError(
            f"decode.device: this machine offers no {device.type}", "use --set decode.device=cpu"
        )
    return device


def _backend_name(settings: LoadSettings, device: torch.device, family: str) -> str:
    if settings.backend == "cpu" and device.type != "cpu":
        raise UsageError("decode.backend cpu needs decode.device cpu", "use --set decode.device=cpu")
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
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
        raise ModelUnavailable(
            f"{folder}: no usable {what}: {_first_line(error)}",
            "pull the model again: ragla models pull NAME",
        ) from error


def _read_model(
    folder: Path, dtype: torch.dtype, settings: LoadSettings, attention: str | None = None
) -> Any:
    keywords: dict[str, Any] = {"dtype": dtype, "local_files_only": True}
    keywords["trust_remote_code"] = settings.trust_remote_code
    if attention is not None:
        keywords["attn_implementation"] = attention
    if settings.quantization is not None:
        keywords["quantization_config"] = dict(settings.quantization)
    try:
        return AutoModelForCausalLM.from_pretrained(folder, **keywords)
    except ImportError as error:
        raise ModelUnavailable(
            f"this model needs a package that is missing: {_first_line(error)}",
            "pip install 'ragla[quantized]'",
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelUnavailable(
            f"{folder}: the model cannot be loaded: {_first_line(error)}",
            "pull the model again: ragla models pull NAME",
        ) from error


def _end_ids(folder: Path, config: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends an answer: of the generation config, the model config and the tokenizer."""
    found: list[Any] = [config.get_text_config().eos_token_id, tokenizer.eos_token_id]
    if (folder / "generation_config.json").exists():
        found.append(GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id)
    ids: set[int] = set()
    for entry in found:
        ids.update(entry if isinstance(entry, (list, tuple)) else [] if entry is None else [entry])
    return frozenset(ids)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def quiet_libraries() -> None:
    """Keep transformers' advice and progress bars off the terminal and its hub client offline."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
