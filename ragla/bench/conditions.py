"""The conditions a bench ran under: without them its numbers say nothing."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from statistics import median

import torch

from ragla.bench.machine import cpu_name
from ragla.bench.stock import stock_dtype
from ragla.config import Profile
from ragla.decode.model import TargetModel
from ragla.user_path import user_path


@dataclass(frozen=True)
class PromptTokens:
    """Shortest, median and longest prompt, in tokens."""

    min: int
    median: float
    max: int


@dataclass(frozen=True)
class Environment:
    """Versions, machine, model and settings. ``date``: UTC, ISO 8601. ``device_name``: what CUDA calls it."""

    ragla: str
    python: str
    torch: str
    transformers: str
    cpu: str
    cores: int
    threads: int
    device: str
    device_name: str | None
    model: str
    dtype: str
    stock_dtype: str
    backend: str
    draft_budget: int
    cost_aware: bool
    max_depth: int
    shape: str
    max_new_tokens: int
    prompt_tokens: PromptTokens
    runs: int
    date: str


def environment(
    profile: Profile, target: TargetModel, runs: int, prompt_tokens: Sequence[int]
) -> Environment:
    """What holds on this machine for this profile."""
    settings, device = profile.decode, target.backend.device
    return Environment(
        ragla=metadata.version("ragla"),
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=metadata.version("transformers"),
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        model=_model_name(settings.model),
        dtype=target.dtype,
        stock_dtype=stock_dtype(target.dtype),
        backend=target.backend.name,
        draft_budget=settings.draft_budget,
        cost_aware=settings.cost_aware,
        max_depth=settings.max_depth,
        shape=settings.shape,
        max_new_tokens=settings.max_new_tokens,
        prompt_tokens=PromptTokens(min(prompt_tokens), median(prompt_tokens), max(prompt_tokens)),
        runs=runs,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _model_name(model: str) -> str:
    """A registry name or hub id as it is; of a path only the last part, which is no one else's business."""
    path = user_path(model)
    return path.name if path.exists() else model
