"""A model cut across two processes gives the tokens of the whole one; the first process alone decodes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from ragla.decode.backend.eager import EagerBackend
from ragla.decode.backend.processes import Channel, Follower, Leader, Order, packed, unpacked
from ragla.decode.model import LoadSettings, load_target
from ragla.decode.request import DecodeRequest
from ragla.decode.tree_attention import causal_rows, text_and_tree_rows, tree_rows
from ragla.errors import UsageError
from ragla.trie import DraftLimits
from tests.decode.random_trees import random_tree
from tests.decode.tiny_models import drafted, plain, save_tiny, tiny_config

CPU = torch.device("cpu")
REQUEST = DecodeRequest(list(range(10, 40)), 30, prefill_rows=16)

without_accelerate = pytest.mark.skipif(
    importlib.util.find_spec("accelerate") is None, reason="needs accelerate: pip install 'ragla[quantized]'"
)

PROGRAM = """
import json, sys
from pathlib import Path
from ragla.process import prepare
prepare()
import torch
torch.set_num_threads(1)
from ragla.decode.model import LoadSettings, load_target
from ragla.trie import DraftLimits
from tests.decode.test_processes import REQUEST
from tests.decode.tiny_models import drafted, plain

folder, backend = Path(sys.argv[1]), sys.argv[2]
target = load_target(folder, LoadSettings(backend=backend, device="cpu", dtype="float32", parallel="tensor"))
if target.follow is not None:
    target.follow()
    print("followed")
else:
    answer = plain(target.backend, REQUEST)
    found, stats = drafted(target.backend, REQUEST, DraftLimits(budget=16), [answer], [answer[:2], [7, 8]])
    weight = target.backend.inner.model.model.layers[0].self_attn.q_proj.weight
    print(json.dumps([answer, found, stats.tokens_per_step, list(weight.to_local().shape)]))
"""


class Queue(Channel):
    """A channel inside one process: what is sent is received later."""

    def __init__(self) -> None:
        self.waiting: deque[list[int]] = deque()

    def send(self, numbers: Sequence[int]) -> None:
        self.waiting.append(list(numbers))

    def receive(self) -> list[int]:
        return self.waiting.popleft()

    def close(self) -> None:
        self.waiting.clear()


def tiny() -> EagerBackend:
    torch.manual_seed(1)
    return EagerBackend(AutoModelForCausalLM.from_config(tiny_config("llama"), dtype=torch.float32))


@given(nodes=st.integers(1, 12), prefix=st.integers(0, 9))
def test_rows_arrive_as_they_were(nodes: int, prefix: int) -> None:
    for rows in (tree_rows(random_tree(nodes, nodes), prefix, CPU), causal_rows([5] * nodes, prefix, CPU)):
        arrived = unpacked(packed(rows), CPU)
        for name in ("token_ids", "positions", "visible", "key_positions"):
            assert torch.equal(getattr(arrived, name), getattr(rows, name))


def test_a_follower_ends_with_the_same_rows() -> None:
    """Prefill in chunks, drafts kept and dropped, and an answer after another."""
    queue = Queue()
    leader, follower = Leader(tiny(), queue), Follower(tiny(), queue)
    expected = plain(tiny(), REQUEST)
    crossed = [ids for token in expected for ids in (token, (token * 7 + 1) % 120)]
    for _ in range(2):
        found, stats = drafted(
            leader, REQUEST, DraftLimits(budget=12), [crossed, expected], [expected[:3], crossed]
        )
        assert found == expected
        assert stats.prefill_accepted > 2
        assert stats.tokens_per_step > 1.5
    cache = leader.new_cache(64)
    leader.forward_ranked(causal_rows(REQUEST.prompt_ids[:20], 0, CPU), cache, 4)
    cache.committed(20)
    first = random_tree(9, 5)
    leader.forward(text_and_tree_rows(REQUEST.prompt_ids[20:], first, 20, CPU), cache, last=9)
    cache.committed(10)
    cache.keep([1, 4])
    leader.forward(tree_rows(random_tree(9, 3), 32, CPU), cache)
    cache.keep([0, 2, 5])
    leader.forward(causal_rows([7], 35, CPU), cache)
    assert any(order[0] == Order.KEEP for order in queue.waiting)
    leader.order(Order.STOP)
    follower.follow()
    [(_, followed)] = follower._caches.items()  # those of the answers were dropped with theirs
    for mine, theirs in zip(cache.rows, followed.rows, strict=True):
        assert torch.equal(mine.keys[:, :, :36], theirs.keys[:, :, :36])
        assert torch.equal(mine.values[:, :, :36], theirs.values[:, :, :36])
    leader.close()


def test_a_cache_of_another_backend_is_refused() -> None:
    leader = Leader(tiny(), Queue())
    with pytest.raises(TypeError, match="of another backend"):
        leader.forward(causal_rows([5], 0, CPU), tiny().new_cache(3))
    leader.close()


@without_accelerate
def test_two_processes_give_one_processes_tokens(tmp_path: Path) -> None:
    """Of a model whose layers have two kinds of masks."""
    folder = save_tiny(tmp_path / "model", tiny_config("gemma3_text"))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = Path(__file__).parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(program), str(folder), "eager"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.split("\n")
    assert lines.count("followed") == 1
    answer, found, tokens_per_step, shape = json.loads(next(line for line in lines if line.startswith("[")))
    whole = load_target(folder, LoadSettings(backend="eager", device="cpu", dtype="float32"))
    assert answer == found == plain(whole.backend, REQUEST)
    assert tokens_per_step > 3
    assert shape == [16, 32]  # half of the rows


@without_accelerate
@pytest.mark.parametrize(
    ("processes", "family", "message"),
    [
        ("1", "llama", "tensor needs several processes"),
        ("3", "llama", "2 key heads cannot be shared by 3 processes"),
        ("2", "gpt2", "transformers has no plan for gpt2 models"),
        ("2", "mamba", "tensor: mamba keeps a recurrent state"),
    ],
)
def test_what_cannot_be_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str, family: str, message: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", processes)
    folder = save_tiny(tmp_path, tiny_config(family))
    with pytest.raises(UsageError, match=message) as caught:
        load_target(folder, LoadSettings(backend="eager", device="cpu", parallel="tensor"))
    assert caught.value.hint


def test_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    folder = save_tiny(tmp_path, tiny_config("llama"))
    with pytest.raises(UsageError, match="layers needs the package accelerate") as caught:
        load_target(folder, LoadSettings(backend="eager", device="cpu", parallel="layers"))
    assert caught.value.hint == "pip install 'ragla[quantized]'"
