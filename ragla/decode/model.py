"""Loads a target model from a local folder into a backend. Never contacts a hub, never runs foreign code
unless it is told to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers.utils.logging import disable_progress_bar

from ragla.decode.backend import Backend, kernels
from ragla.decode.backend.cpu import ATTENTION, CpuBackend, pack_linears
from ragla.decode.backend.cuda import CudaBackend
from ragla.decode.backend.eager import BloomBackend, EagerBackend
from ragla.decode.backend.integer import load_integer_model
from ragla.decode.backend.linears import integers_available
from ragla.decode.backend.plain import plain_backend
from ragla.decode.backend.processes import Follower, shared
from ragla.decode.checkpoint import Checkpoint, open_checkpoint
from ragla.decode.families import why_plain
from ragla.decode.placement import Parallel, loading_keywords, placed, several_devices
from ragla.errors import UsageError

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]

# families whose attention the cpu backend's tests hold against their own
CPU_FAMILIES = {
    "llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "glm", "glm4", "gpt2", "smollm3", "olmo2",
    "granite", "phi3", "starcoder2", "stablelm", "opt", "gptj", "gpt_neox", "phi", "cohere2", "exaone4",
}  # fmt: skip


@dataclass(frozen=True)
class LoadSettings:
    """How to load: see the profile keys of these names. ``integers`` is the folder in which
    8-bit weights are kept; None: they are made anew for each load.
    """

    backend: Literal["auto", "eager", "cpu", "cuda"] = "auto"
    device: str = "auto"
    parallel: Parallel = "none"
    dtype: Dtype = "auto"
    threads: int = 0
    quantization: dict[str, Any] | None = None
    trust_remote_code: bool = False
    integers: Path | None = None


@dataclass(frozen=True)
class TargetModel:
    """A model ready to decode. ``notices`` say in a line each what was not done as asked.

    ``follow``: where this is not the first of several processes, what it has to do instead of decoding; it
    returns when the first one ends.
    """

    backend: Backend
    tokenizer: Any
    end_ids: frozenset[int]
    dtype: str
    notices: tuple[str, ...] = ()
    follow: Callable[[], None] | None = None


def load_target(folder: Path, settings: LoadSettings) -> TargetModel:
    """Load model and tokenizer from ``folder``.

    Raises ModelUnavailable when the folder holds no usable model, UsageError for settings that do not fit
    this machine.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = _device(settings.device)
    checkpoint = open_checkpoint(folder, settings.trust_remote_code)
    config = checkpoint.config
    plain = why_plain(config, checkpoint.generation, checkpoint.own_code)
    family = config.model_type if plain else config.get_text_config(decoder=True).model_type
    notices: list[str] = []
    quantized = settings.quantization or getattr(config, "quantization_config", None)
    backend_name = _backend_name(settings, device, family, plain, bool(quantized))
    dtype = _dtype(settings.dtype, backend_name, family, plain, config, notices)
    backend: Backend
    if backend_name == "cpu":
        backend = _cpu_backend(checkpoint, dtype, settings, notices)
    else:
        model = checkpoint.read_model(
            getattr(torch, dtype),
            quantization=settings.quantization,
            placing=loading_keywords(settings.parallel, config),
        )
        model = placed(model, device, settings.parallel)
        if plain:
            backend = plain_backend(model, checkpoint.generation)
            notices.append(f"{plain}: decoding one token a step, without drafts")
        elif family == "bloom":
            backend = BloomBackend(model)
        elif backend_name == "cuda":
            whole = settings.parallel != "tensor" and not several_devices(model)
            backend = CudaBackend(model, record=whole)
            notices += backend.notices
        else:
            backend = EagerBackend(model)
    follower: Follower | None = None
    if settings.parallel == "tensor":
        backend, follower = shared(backend)
    return TargetModel(
        backend,
        checkpoint.tokenizer,
        checkpoint.end_ids(),
        dtype,
        tuple(notices),
        follower.follow if follower else None,
    )


def _cpu_backend(
    checkpoint: Checkpoint, dtype: str, settings: LoadSettings, notices: list[str]
) -> CpuBackend:
    if dtype == "int8":
        config = checkpoint.config
        if config.get_text_config() is not config:
            raise UsageError(
                f"decode.dtype int8 does not run {config.model_type} models, which read more than text",
                "use --set decode.dtype=float32",
            )
        try:
            with nullcontext(settings.integers) if settings.integers else TemporaryDirectory() as integers:
                return CpuBackend(load_integer_model(checkpoint.folder, checkpoint.config, Path(integers)))
        except (KeyError, RuntimeError, SafetensorError) as error:
            raise checkpoint.unloadable(error) from error
    model = checkpoint.read_model(torch.float32, attention=ATTENTION)
    if kernels.compiled or torch._C._has_mkldnn:
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


def _backend_name(
    settings: LoadSettings, device: torch.device, family: str, plain: str | None, quantized: bool
) -> str:
    known = plain is None and family in CPU_FAMILIES
    if settings.backend == "cpu" and device.type != "cpu":
        raise UsageError("decode.backend cpu needs decode.device cpu", "use --set decode.device=cpu")
    if settings.backend == "cpu" and not known:
        raise _not_on_cpu(family, plain)
    if settings.backend == "cpu" and quantized:
        what = "decode.quantization" if settings.quantization else "checkpoints that are quantised already"
        raise UsageError(
            f"the cpu backend does not run {what}", "use --set decode.backend=eager, or decode.dtype=int8"
        )
    if plain and settings.parallel == "tensor":
        raise UsageError(f"decode.parallel tensor: {plain}", "use --set decode.parallel=layers")
    if settings.backend == "cpu" and settings.parallel != "none":
        raise UsageError(
            "the cpu backend runs in one process on one device", "use --set decode.backend=eager"
        )
    if settings.backend == "cuda" and device.type != "cuda":
        raise UsageError("decode.backend cuda needs a CUDA device", "use --set decode.backend=auto")
    if settings.backend != "auto":
        return settings.backend
    if device.type == "cuda":
        return "cuda"
    if quantized or settings.parallel != "none" or settings.dtype in ("bfloat16", "float16"):
        return "eager"
    return "cpu" if device.type == "cpu" and known else "eager"


def _not_on_cpu(family: str, plain: str | None) -> UsageError:
    reason = f": {plain}" if plain else ""
    return UsageError(
        f"the cpu backend does not know {family} models{reason}",
        "use --set decode.backend=auto --set decode.dtype=auto",
    )


def _dtype(asked: str, backend: str, family: str, plain: str | None, config: Any, notices: list[str]) -> str:
    if backend != "cpu":
        if asked == "int8" and (plain is not None or family not in CPU_FAMILIES):
            raise _not_on_cpu(family, plain)
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
