"""The conditions a bench runs under, asked of the machine, the model and the profile."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from statistics import median

import torch

from ragla.bench.environment import Environment, TokenRange
from ragla.bench.machine import cpu_name
from ragla.bench.stock import stock_dtype
from ragla.config import Profile
from ragla.decode.backend import kernels
from ragla.decode.model import TargetModel
from ragla.user_path import user_path


def environment(
    profile: Profile,
    target: TargetModel,
    runs: int,
    prompt_tokens: Sequence[int],
    answer_tokens: Sequence[int],
    dtypes: Sequence[str],
    load_average: float | None,
    other_cores: float | None,
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
        prompt_tokens=token_range(prompt_tokens),
        runs=runs,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        dtypes=tuple(dtypes),
        system=f"{platform.system()} {platform.release()}",
        compiled=kernels.compiled,
        window=target.backend.context_end,
        answer_tokens=token_range(answer_tokens),
        load_average=load_average,
        other_cores=other_cores,
    )


def token_range(counts: Sequence[int]) -> TokenRange:
    """Fewest, median and most of some counts."""
    return TokenRange(min(counts), median(counts), max(counts))


def _model_name(model: str) -> str:
    """A registry name or hub id as it is; of a path only the last part, which is no one else's business."""
    path = user_path(model)
    return path.name if path.exists() else model
