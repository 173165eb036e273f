"""Where a model's weights go: on one device, layer by layer on several, or cut across processes.

transformers does the placing, with ``accelerate``'s device map or with its own tensor-parallel plan; this
module knows what it must be asked, and what to say when it cannot be done.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any, Literal

import torch
from transformers.distributed.configuration_utils import DistributedConfig

from ragla.errors import RaglaError, UsageError
from ragla.memory import out_of_memory

Parallel = Literal["none", "layers", "tensor"]

LAUNCHER = "start it as: torchrun --nproc-per-node 2 $(which ragla) ask ..."


def loading_keywords(parallel: Parallel, config: Any) -> dict[str, Any]:
    """What ``from_pretrained`` is told of a model with this configuration.

    Raises UsageError where it could not do it.
    """
    if parallel == "none":
        return {}
    if importlib.util.find_spec("accelerate") is None:
        raise UsageError(
            f"decode.parallel {parallel} needs the package accelerate", "pip install 'ragla[quantized]'"
        )
    if parallel == "layers":
        return {"device_map": "auto"}
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes < 2:
        raise UsageError("decode.parallel tensor needs several processes", LAUNCHER)
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    if heads % processes:
        raise UsageError(
            f"decode.parallel tensor: {heads} key heads cannot be shared by {processes} processes",
            "start another number of them, or use --set decode.parallel=layers",
        )
    if not text.base_model_tp_plan:
        raise UsageError(
            f"decode.parallel tensor: transformers has no plan for {text.model_type} models",
            "use --set decode.parallel=layers",
        )
    return {"distributed_config": DistributedConfig(tp_plan="auto")}


def placed(model: Any, device: torch.device, parallel: Parallel) -> Any:
    """The loaded model on its device; one that lies on several stays there.

    Raises RaglaError when it does not fit.
    """
    if parallel != "none":
        return model
    try:
        return model.to(device)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise RaglaError(
            f"the model does not fit the memory of {device}",
            "choose a smaller model or set decode.quantization; over several devices: "
            "--set decode.parallel=layers",
        ) from error


def several_devices(model: Any) -> bool:
    """Whether a model's layers lie on more than one device, a disk counted as one."""
    places = getattr(model, "hf_device_map", None) or {}
    return len({str(place) for place in places.values()}) > 1
