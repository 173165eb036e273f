"""Models that are quantised, or lie on several devices: loaded by transformers, decoded like any other."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from ragla.decode.backend.cuda import CudaBackend
from ragla.decode.backend.eager import EagerBackend
from ragla.decode.backend.graphs import TapeGraphs
from ragla.decode.model import LoadSettings, load_target
from ragla.decode.placement import several_devices
from ragla.decode.request import DecodeRequest
from ragla.errors import ModelUnavailable, UsageError
from ragla.trie import DraftLimits
from tests.decode.tiny_models import drafted, plain, save_tiny, save_tokenizer, tiny_config

REQUEST = DecodeRequest(list(range(10, 40)), 20)


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"needs {package}, see docs/large-models.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("llama"), tiny_config("llama"))


def assert_decodes(backend: Any, expected: list[int] | None = None) -> None:
    """Drafted like plain, accepting what is right; and as ``expected``, where the weights are the same."""
    answer = plain(backend, REQUEST)
    found, stats = drafted(backend, REQUEST, DraftLimits(budget=16), [answer])
    assert found == answer
    assert stats.tokens_per_step > 3
    if expected is not None:
        assert answer == expected


def test_layers_of_one_device(folder: Path) -> None:
    pytest.importorskip("accelerate", reason="needs accelerate, see docs/large-models.md")
    whole = load_target(folder, LoadSettings(backend="eager", device="cpu"))
    target = load_target(folder, LoadSettings(device="cpu", parallel="layers"))
    assert target.backend.name == "eager"
    assert_decodes(target.backend, plain(whole.backend, REQUEST))
    with pytest.raises(UsageError, match="in one process on one device"):
        load_target(folder, LoadSettings(backend="cpu", device="cpu", parallel="layers"))


@needs("accelerate")
@pytest.mark.parametrize("kind", [EagerBackend, CudaBackend])
def test_layers_on_several_devices(folder: Path, tmp_path: Path, kind: type[EagerBackend]) -> None:
    """Accelerate's hooks move weights and activations between the layers; here between memory and disk."""
    whole = load_target(folder, LoadSettings(backend="eager", device="cpu"))
    places = {
        "model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk", "model.norm": "cpu",
        "model.rotary_emb": "cpu", "lm_head": "cpu",
    }  # fmt: skip
    reader: Any = AutoModelForCausalLM
    model = reader.from_pretrained(
        folder, dtype=torch.float32, device_map=places, offload_folder=tmp_path, local_files_only=True
    )
    assert several_devices(model)
    backend = CudaBackend(model, TapeGraphs(), record=False) if kind is CudaBackend else EagerBackend(model)
    assert_decodes(backend, plain(whole.backend, REQUEST))
    assert not several_devices(whole.backend.model)  # type: ignore[attr-defined]
    if isinstance(backend, CudaBackend):
        assert backend.notices == ["the model lies on several devices: its steps are not recorded as graphs"]


@needs("bitsandbytes")
@needs("accelerate")
@pytest.mark.filterwarnings("ignore")  # of bitsandbytes, about number formats
@pytest.mark.parametrize("bits", ["load_in_8bit", "load_in_4bit"])
def test_bitsandbytes(folder: Path, bits: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"quant_method": "bitsandbytes", bits: True}
    target = load_target(folder, LoadSettings(device="cpu", quantization=settings))
    assert target.backend.name == "eager"
    kinds = {type(module).__name__ for module in target.backend.model.modules()}  # type: ignore[attr-defined]
    assert kinds & {"Linear8bitLt", "Linear4bit"}
    caplog.clear()
    assert_decodes(target.backend)
    assert caplog.messages == []  # it would say the same at every linear of every step


@needs("torchao")
@needs("accelerate")
@pytest.mark.filterwarnings("ignore")  # of torchao, about what it will drop
def test_a_torchao_checkpoint(folder: Path, tmp_path: Path) -> None:
    from torchao.quantization import Int8WeightOnlyConfig  # type: ignore[import-not-found,unused-ignore]
    from transformers import TorchAoConfig

    reader: Any = AutoModelForCausalLM
    settings: Any = TorchAoConfig
    model = reader.from_pretrained(
        folder, dtype=torch.float32, device_map="cpu", quantization_config=settings(Int8WeightOnlyConfig())
    )
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    target = load_target(tmp_path, LoadSettings(device="cpu"))
    assert target.backend.name == "eager"  # packed linears would know nothing of its tensors
    weight = target.backend.model.model.layers[0].self_attn.q_proj.weight  # type: ignore[attr-defined]
    assert type(weight).__name__ == "Int8Tensor"
    assert_decodes(target.backend)


@pytest.mark.parametrize(("method", "package"), [("gptq", "optimum"), ("awq", "gptqmodel")])
def test_a_checkpoint_whose_package_is_missing(
    folder: Path, tmp_path: Path, method: str, package: str
) -> None:
    """GPTQ and AWQ kernels want a GPU; without their package one line names it."""
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is here")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4, "group_size": 8}
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnavailable) as caught:
        load_target(tmp_path, LoadSettings(device="cpu"))
    assert "\n" not in str(caught.value)
    assert f"pip install {package}" in str(caught.value)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("install it")
    with pytest.raises(UsageError, match="does not run checkpoints that are quantised already"):
        load_target(tmp_path, LoadSettings(device="cpu", backend="cpu"))
