"""Loads a model with 8-bit linears without ever holding its full-precision weights.

The integers are computed once, linear by linear, and kept as safetensors files. The compiled kernels' are
kept packed, so that from then on loading is reading them; fbgemm's are packed at each start. The model
itself is built without storage and given only what is not a linear: embeddings, norms, biases.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM

from ragla.decode.backend import kernels
from ragla.decode.backend.cpu import ATTENTION, LinearPlace, joined_bias, linear_places, pack_conv1d
from ragla.decode.backend.kernel_linears import KernelIntegerLinear, packed_integers
from ragla.decode.backend.linears import IntegerLinear, packing_integers, quantise
from ragla.errors import ModelUnavailable, RaglaError

PACKED = "packed-2"  # the numbers change with the schemes
INTEGERS = "integers-3"
FINE_FIRST, FINE_LAST = 4, 3  # layers whose down projection sees outliers and gets 16-bit activations


class HalfEmbedding(nn.Module):
    """An embedding kept in the precision it is stored in, read in float32."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids [...] → float32 [..., hidden]."""
        return nn.functional.embedding(ids, self.weight).float()


class StoredTensors(Mapping[str, torch.Tensor]):
    """The safetensors files of a folder as a mapping.

    A file is mapped anew for each tensor: its pages are given back when the tensor is gone, and a model
    that is packed tensor by tensor never has two copies in memory.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Path] = {}
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="pt") as shard:
                self._files.update(dict.fromkeys(shard.keys(), path))
        if not self._files:
            raise ModelUnavailable(
                f"{folder}: no safetensors files", "pull the model again: ragla models pull NAME"
            )

    def __getitem__(self, name: str) -> torch.Tensor:
        with safe_open(self._files[name], framework="pt") as shard:
            tensor: torch.Tensor = shard.get_tensor(name)
        return tensor

    def __iter__(self) -> Any:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def load_integer_model(folder: Path, config: Any, keep: Path) -> Any:
    """A transformers model whose linears are ``IntegerLinear``; ``keep`` is the folder for the integers."""
    with torch.device("meta"):
        build: Any = AutoModelForCausalLM.from_config
        model = build(config, dtype=torch.float32, attn_implementation=ATTENTION).eval()
    weights = StoredTensors(folder)
    path = keep / (PACKED if kernels.compiled else INTEGERS)
    places = linear_places(model)
    if not _is_whole(path, places):
        shutil.rmtree(path, ignore_errors=True)
        _store_integers(path, places, weights, model)
        _drop_older(path)
    _replace_linears(model, places, StoredTensors(path), weights)
    _fill_rest(model, weights)
    if kernels.compiled or torch._C._has_mkldnn:
        pack_conv1d(model)
    return model


def _drop_older(path: Path) -> None:
    """Remove what earlier versions packed in another layout, which nothing reads any more."""
    kind, _, number = path.name.rpartition("-")
    for older in (path.with_name(f"{kind}-{i}") for i in range(1, int(number))):
        shutil.rmtree(older, ignore_errors=True)


def _is_whole(path: Path, places: list[LinearPlace]) -> bool:
    """Whether the integers of every linear are there; a broken copy is made again, like a missing one."""
    try:
        stored = set(StoredTensors(path))
    except (ModelUnavailable, SafetensorError):
        return False
    return stored == {
        f"{place.full_names()[0]}.{part}" for place in places for part in ("integers", "scales")
    }


def _store_integers(path: Path, places: list[LinearPlace], weights: StoredTensors, model: Any) -> None:
    """Write a file of integers and scales for each linear, fused ones together, all or nothing."""
    quantised = packed_integers if kernels.compiled else quantise
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        for place in places:
            parts = [weights[_stored_name(name, weights, model)] for name in place.full_names()]
            integers, scales = quantised(torch.cat(parts))
            name = place.full_names()[0]
            tensors = {f"{name}.integers": integers.clone(), f"{name}.scales": scales}
            save_file(tensors, partial / f"{name}.safetensors")
        partial.rename(path)
    except OSError as error:
        if not path.exists():  # else another process was quicker
            raise RaglaError(
                f"the 8-bit weights cannot be kept in {path.parent}: {error.strerror or error}",
                "free some disk space, or choose another cache: RAGLA_CACHE=FOLDER",
            ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _stored_name(name: str, weights: StoredTensors, model: Any) -> str:
    """The tensor of a linear; a head that is tied to the embedding has none of its own."""
    own = f"{name}.weight"
    if own in weights:
        return own
    embedding = model.get_input_embeddings()
    return next(f"{key}.weight" for key, module in model.named_modules() if module is embedding)


def _replace_linears(
    model: Any, places: list[LinearPlace], stored: StoredTensors, weights: StoredTensors
) -> None:
    """Make all linears, the largest first, on all cores: fbgemm itself packs on one."""
    places = sorted(places, key=lambda place: -place.size)

    def make(place: LinearPlace) -> nn.Module:
        name = place.full_names()[0]
        integers, scales = stored[f"{name}.integers"], stored[f"{name}.scales"]
        bias = joined_bias([weights.get(f"{name}.bias") for name in place.full_names()], place.widths)
        if not kernels.compiled:
            return IntegerLinear(integers, scales, bias, fine=_is_fine(place, model))
        packed = kernels.in_large_pages(integers.numel(), integers.dtype).copy_(integers)
        return KernelIntegerLinear(packed, scales.clone(), (sum(place.widths), place.inputs), bias)

    packing = nullcontext() if kernels.compiled else packing_integers()
    with packing, ThreadPoolExecutor(torch.get_num_threads()) as threads:
        for place, linear in zip(places, threads.map(make, places), strict=True):
            place.put(linear)


def _is_fine(place: LinearPlace, model: Any) -> bool:
    layers = model.config.get_text_config().num_hidden_layers
    layer = next((int(part) for part in place.prefix.split(".") if part.isdigit()), layers // 2)
    return place.names == ("down_proj",) and (layer < FINE_FIRST or layer >= layers - FINE_LAST)


def _fill_rest(model: Any, weights: StoredTensors) -> None:
    """Give storage to what is not a linear, and recompute what is not stored, such as rotary frequencies."""
    for name, module in list(model.named_modules()):
        if type(module) is nn.Embedding:
            parent_name, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent_name), attribute, HalfEmbedding(weights[f"{name}.weight"]))
    for name, module in model.named_modules():
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if not any(tensor.is_meta for tensor in tensors):
            continue
        module.to_empty(device="cpu", recurse=False)
        model._init_weights(module)
        with torch.no_grad():
            for key, parameter in module.named_parameters(recurse=False):
                parameter.copy_(weights[f"{name}.{key}".lstrip(".")])
