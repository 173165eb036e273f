"""What a device can do and what a step costs on it. Times in seconds, medians."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.sdpa_attention import repeat_kv

from ragla.decode.backend.cuda import CudaBackend
from ragla.decode.backend.cuda_attention import grouped_attention
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.backend.graphs import CaptureFailed, graphs_for
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import causal_rows, tree_rows
from ragla.memory import out_of_memory
from ragla.trie import DraftTree

PREFIX = 200  # tokens before the tree whose logits are checked
LAUNCHES = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaGraphLaunch",
)


class Measure:
    """Runs things on one device and times them."""

    def __init__(self, device: torch.device, quick: bool) -> None:
        self.device = device
        self.least, self.seconds = (3, 0.0) if quick else (5, 0.3)
        self.copied_bytes = (1 << 22) if quick else (1 << 30)

    def wait(self) -> None:
        """Until the device has done all it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def median_of(self, function: Callable[[], object], together: int = 1) -> float:
        """Median time of a call, the device's work included; short ones are timed so many ``together``."""
        for _ in range(2):
            function()
        times: list[float] = []
        self.wait()
        while len(times) < self.least or (sum(times) < self.seconds and len(times) < 200):
            began = perf_counter()
            for _ in range(together):
                function()
            self.wait()
            times.append(perf_counter() - began)
        return median(times) / together

    def copy_bandwidth(self) -> float:
        """Bytes a second read and written by a large copy on the device."""
        source = torch.empty(self.copied_bytes, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        return 2 * self.copied_bytes / self.median_of(lambda: target.copy_(source))

    def launches(self, function: Callable[[], object]) -> int:
        """What the host hands to the device in a call: kernels and graphs; on a CPU torch operations."""
        function()
        if self.device.type != "cuda":
            counting = _Counting()
            with counting:
                function()
            return counting.count
        self.wait()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            function()
            self.wait()
        return len([event for event in profile.events() if event.name in LAUNCHES])


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def random_model(family: str, sizes: dict[str, Any], dtype: torch.dtype, device: torch.device) -> Any:
    """A model with random weights, made on the device."""
    config = AutoConfig.for_model(family, **sizes)
    torch.manual_seed(0)
    with torch.device(device):
        maker: Any = AutoModelForCausalLM
        model = maker.from_config(config, dtype=dtype)
    return model.to(device).eval().requires_grad_(False)


@contextlib.contextmanager
def stock_attention(model: Any) -> Iterator[None]:
    """The model as transformers runs it, with sdpa attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def random_tree(nodes: int, vocabulary: int) -> DraftTree:
    """A tree whose newest nodes branch off its last few."""
    rng = random.Random(nodes)
    tree = DraftTree([rng.randrange(vocabulary)])
    while len(tree) < nodes:
        tree.add(rng.randrange(vocabulary), max(0, len(tree) - 1 - rng.randrange(3)))
    return tree


def text_of(length: int, vocabulary: int) -> list[int]:
    """Random tokens."""
    rng = random.Random(length)
    return [rng.randrange(vocabulary) for _ in range(length)]


def filled(backend: EagerBackend, text: list[int], room: int, chunk: int) -> KVCache:
    """A cache that holds a text, read in chunks."""
    cache = backend.new_cache(len(text) + room)
    for start in range(0, len(text), chunk):
        part = text[start : start + chunk]
        backend.forward(causal_rows(part, start, backend.device), cache, last=1)
        cache.committed(len(part))
    return cache


def tree_error(backend: EagerBackend, nodes: int) -> float:
    """Largest difference of a tree's logits from plain forwards over each branch, of the largest logit."""
    vocabulary = backend.config.vocab_size
    text, tree = text_of(PREFIX, vocabulary), random_tree(nodes, vocabulary)
    cache = filled(backend, text, nodes, PREFIX)
    found = backend.forward(tree_rows(tree, PREFIX, backend.device), cache).float()
    worst = largest = 0.0
    with stock_attention(backend.model), torch.inference_mode():
        for node, path in enumerate(tree.ancestors()):
            ids = text + [tree.token_ids[ancestor] for ancestor in path]
            plain = backend.model(
                torch.tensor([ids], device=backend.device), use_cache=False, logits_to_keep=1
            ).logits[0, -1]
            worst = max(worst, float((found[node] - plain.float()).abs().max()))
            largest = max(largest, float(plain.abs().max()))
    return worst / largest


def step_times(
    measure: Measure, backend: EagerBackend, context: int, sizes: list[int], chunk: int
) -> dict[str, Any]:
    """TTFT of a prompt of ``context`` tokens and t(T) behind it; ``problem`` where memory ran out."""
    vocabulary = backend.config.vocab_size
    text = text_of(context, vocabulary)
    try:
        filled(backend, text, max(sizes), chunk)
        measure.wait()
        began = perf_counter()
        cache = filled(backend, text, max(sizes), chunk)
        measure.wait()
        ttft = perf_counter() - began
        times = {}
        for size in sizes:
            rows = tree_rows(random_tree(size, vocabulary), context, backend.device)

            def step(rows: Any = rows, cache: KVCache = cache) -> None:
                backend.forward(rows, cache)
                cache.truncate(context)

            times[size] = measure.median_of(step)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return {"problem": "out of memory"}
    return {"ttft_s": ttft, "t": times}


def launch_counts(measure: Measure, backend: CudaBackend, stock: EagerBackend, rows: int) -> dict[str, int]:
    """What the host hands to the device for a step of ``rows`` rows, recorded and stock."""
    vocabulary = backend.config.vocab_size
    text = text_of(PREFIX, vocabulary)
    counts = {}
    for name, one in (("recorded", backend), ("stock", stock)):
        with contextlib.ExitStack() as stack:
            if one is stock:
                stack.enter_context(stock_attention(stock.model))
            cache = filled(one, text, rows, PREFIX)
            tree = tree_rows(random_tree(rows, vocabulary), PREFIX, one.device)

            def step(one: EagerBackend = one, tree: Any = tree, cache: KVCache = cache) -> None:
                one.forward(tree, cache)
                cache.truncate(PREFIX)

            counts[name] = measure.launches(step)
    return counts


@torch.inference_mode()
def attention_times(
    measure: Measure, backend: CudaBackend, keys: int, sizes: list[int]
) -> dict[str, dict[int, float | None]]:
    """Seconds of one layer's attention over T rows, recorded, by ways of computing it; None: not recordable.

    ``products``: what the backend does. ``sdpa``: with keys repeated for each query head, as transformers
    does. ``sdpa, expanded``: the same without copying them.
    """
    config, dtype, device = backend.config, backend.model.dtype, backend.device
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    width, share = config.hidden_size // heads, heads // groups
    key, value = (torch.randn(1, groups, keys, width, dtype=dtype, device=device) for _ in range(2))
    times: dict[str, dict[int, float | None]] = {}
    for rows in sizes:
        query = torch.randn(1, heads, rows, width, dtype=dtype, device=device)
        mask = torch.zeros(1, 1, rows, keys, dtype=dtype, device=device)

        def repeated(query: torch.Tensor = query, mask: torch.Tensor = mask) -> torch.Tensor:
            return attended(query, repeat_kv(key, share), repeat_kv(value, share), mask)

        def expanded(query: torch.Tensor = query, mask: torch.Tensor = mask) -> torch.Tensor:
            return attended(
                query.view(groups, share, -1, width),
                key[0][:, None].expand(-1, share, -1, -1),
                value[0][:, None].expand(-1, share, -1, -1),
                mask,
            )

        def products(query: torch.Tensor = query, mask: torch.Tensor = mask) -> torch.Tensor:
            return grouped_attention(query, key, value, mask, width**-0.5)

        for name, way in (("products", products), ("sdpa", repeated), ("sdpa, expanded", expanded)):
            try:
                replay = graphs_for(device).capture(way)
            except (CaptureFailed, torch.OutOfMemoryError):
                times.setdefault(name, {})[rows] = None
            else:
                together = 1 if device.type == "cpu" else 20
                times.setdefault(name, {})[rows] = measure.median_of(replay, together)
    return times


def attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """sdpa with a mask."""
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
