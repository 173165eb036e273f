"""Loading a target: what is broken, missing or contradictory is said in one line with what mends it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from ragla.decode.backend import kernels
from ragla.decode.backend.kernel_linears import KernelIntegerLinear
from ragla.decode.backend.linears import IntegerLinear, SharedLinear
from ragla.decode.model import LoadSettings, load_target
from ragla.decode.request import DecodeRequest
from ragla.decode.tree_attention import causal_rows
from ragla.errors import ModelUnavailable, UsageError
from tests.decode.tiny_configs import END, VOCABULARY, tiny_config
from tests.decode.tiny_models import plain, save_tiny, save_tokenizer

Break = Callable[[Path], None]


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("whole"), tiny_config("llama"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def settings(folder: Path, **keys: Any) -> LoadSettings:
    return LoadSettings(**{"integers": folder / "integers", **keys})


def write(name: str, text: str) -> Break:
    return lambda folder: (folder / name).write_text(text) and None


def remove(*names: str) -> Break:
    return lambda folder: [(folder / name).unlink() for name in names] and None


def cut(name: str) -> Break:
    def half(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return half


def configure(**keys: Any) -> Break:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **keys}))

    return change


BROKEN: dict[str, Break] = {
    "config is no JSON": write("config.json", "{"),
    "config is a list": write("config.json", "[]"),
    "no config": remove("config.json"),
    "unknown family": configure(model_type="nosuch"),
    "no family": configure(model_type=None),
    "size is a word": configure(hidden_size="many"),
    "no heads": configure(num_attention_heads=0),
    "code of its own": configure(model_type="own", auto_map={"AutoConfig": "own.Config"}),
    "tokenizer is no JSON": write("tokenizer.json", "{"),
    "tokenizer is empty": write("tokenizer.json", "{}"),
    "no tokenizer": remove("tokenizer.json", "tokenizer_config.json"),
    "generation config is no JSON": write("generation_config.json", "{"),
    "generation config is a list": write("generation_config.json", "[]"),
    "half the weights": cut("model.safetensors"),
    "no weights": remove("model.safetensors"),
    "other sizes than the config": configure(hidden_size=64),
    "fewer layers than the config": configure(num_hidden_layers=5),
}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_folder(folder: Path, damage: str, dtype: str) -> None:
    BROKEN[damage](folder)
    with pytest.raises(ModelUnavailable) as caught:
        load_target(folder, settings(folder, dtype=dtype))
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value) or "package" in str(caught.value)
    assert caught.value.hint


def test_a_missing_folder_is_not_looked_up_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("nowhere", "some/where"):
        with pytest.raises(ModelUnavailable, match=f"{name}: no such folder"):
            load_target(Path(name), LoadSettings())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"device": "banana"}, "no such device 'banana'"),
        ({"device": "meta"}, "no such device 'meta'"),
        ({"device": "xpu"}, "no such device 'xpu'"),
        ({"backend": "cpu", "dtype": "bfloat16"}, "the cpu backend has no bfloat16"),
        ({"backend": "cpu", "dtype": "float16"}, "the cpu backend has no float16"),
        ({"backend": "eager", "dtype": "int8"}, "int8 runs on the cpu backend"),
        ({"quantization": {"quant_method": "bitsandbytes"}, "dtype": "int8"}, "int8 runs on the cpu backend"),
        ({"quantization": {"quant_method": "bitsandbytes"}, "backend": "cpu"}, "does not run decode.quantiz"),
    ],
)
def test_settings_that_contradict_each_other(whole: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_target(whole, settings(whole, **keys))
    assert caught.value.hint


def test_a_model_that_reads_more_than_text_is_not_read_in_8_bit(tmp_path: Path) -> None:
    save_tiny(tmp_path, tiny_config("gemma3"))
    with pytest.raises(UsageError, match="int8 does not run gemma3 models") as caught:
        load_target(tmp_path, settings(tmp_path, backend="cpu", dtype="int8"))
    assert caught.value.hint == "use --set decode.dtype=float32"


OWN = """
from transformers import LlamaConfig, LlamaForCausalLM


class OwnConfig(LlamaConfig):
    model_type = "own"


class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


def test_a_model_with_code_of_its_own_decodes_plainly_where_it_is_trusted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(folder.parent / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))  # transformers appends that folder
    code = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    configure(model_type="own", auto_map=code)(folder)
    write("own.py", OWN)(folder)
    with pytest.raises(ModelUnavailable, match="code of its own, which is not run unasked") as caught:
        load_target(folder, settings(folder))
    assert "decode.trust_remote_code=true" in str(caught.value.hint)
    target = load_target(folder, settings(folder, trust_remote_code=True))
    assert (target.backend.name, target.backend.drafts) == ("plain", False)
    assert target.notices == (
        "the model brings its own code, whose attention no test has seen: "
        "decoding one token a step, without drafts",
    )
    asked = DecodeRequest([5, 6, 7], 12)
    stock = save_tiny(folder.parent / "stock", tiny_config("llama"))
    assert plain(target.backend, asked) == plain(load_target(stock, settings(stock)).backend, asked)


@pytest.mark.parametrize("trusted", [False, True])
def test_an_original_chatglm_folder_names_the_converted_checkpoint(folder: Path, trusted: bool) -> None:
    code = {"AutoConfig": "configuration_chatglm.ChatGLMConfig", "AutoModel": "modeling_chatglm.ChatGLMModel"}
    configure(model_type="chatglm", auto_map=code)(folder)
    with pytest.raises(ModelUnavailable, match="an original ChatGLM checkpoint") as caught:
        load_target(folder, settings(folder, trust_remote_code=trusted))
    assert "zai-org/glm-4-9b-chat-hf" in str(caught.value.hint)


def test_a_model_that_writes_no_text(folder: Path) -> None:
    configure(model_type="bert")(folder)
    with pytest.raises(ModelUnavailable, match="tensors are missing"):
        load_target(folder, settings(folder))
    with pytest.raises(UsageError):
        load_target(folder, settings(folder, dtype="int8"))
    configure(model_type="bert", architectures=["BertModel"])(folder)
    with pytest.raises(ModelUnavailable, match="no model that writes text, it is BertModel"):
        load_target(folder, settings(folder))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_this_machine_has_not(whole: Path) -> None:
    with pytest.raises(UsageError, match="this machine offers no cuda"):
        load_target(whole, settings(whole, device="cuda"))


def test_an_unknown_quantisation(whole: Path) -> None:
    with pytest.raises(ModelUnavailable, match="nosuch"):
        load_target(whole, settings(whole, quantization={"quant_method": "nosuch"}))


@pytest.mark.parametrize(
    ("keys", "backend", "dtype"),
    [
        ({}, "cpu", "float32"),
        ({"dtype": "float32"}, "cpu", "float32"),
        ({"dtype": "int8"}, "cpu", "int8"),
        ({"dtype": "bfloat16"}, "eager", "bfloat16"),
        ({"dtype": "float16"}, "eager", "float16"),
        ({"backend": "eager"}, "eager", "float32"),
    ],
)
def test_what_is_chosen(whole: Path, keys: dict[str, Any], backend: str, dtype: str) -> None:
    target = load_target(whole, settings(whole, **{"device": "cpu", **keys}))
    assert (target.backend.name, target.dtype) == (backend, dtype)
    assert target.end_ids == {END}
    assert target.notices == ()
    assert len(target.tokenizer) == VOCABULARY


def test_every_end_token_is_known(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8]}))
    configure(eos_token_id=[9])(folder)
    assert load_target(folder, settings(folder)).end_ids == {END, 7, 8, 9}


def test_the_stored_precision_is_kept_on_the_eager_backend(tmp_path: Path) -> None:
    save_tiny(tmp_path, tiny_config("llama"), torch.bfloat16)
    target = load_target(tmp_path, settings(tmp_path, backend="eager"))
    assert target.dtype == "bfloat16"
    assert load_target(tmp_path, settings(tmp_path, backend="cpu")).dtype == "float32"


@pytest.mark.parametrize("family", ["mamba", "lfm2", "mpt", "mixtral"])
def test_a_family_the_cpu_backend_does_not_know(tmp_path: Path, family: str) -> None:
    save_tiny(tmp_path, tiny_config(family))
    for keys in ({"backend": "cpu"}, {"dtype": "int8"}, {"backend": "cpu", "dtype": "int8"}):
        with pytest.raises(UsageError, match=f"the cpu backend does not know {family} models") as caught:
            load_target(tmp_path, settings(tmp_path, **keys))
        assert caught.value.hint == "use --set decode.backend=auto --set decode.dtype=auto"
    assert load_target(tmp_path, settings(tmp_path, backend="auto", dtype="auto")).dtype == "float32"


def test_integers_are_made_once_and_mended(folder: Path) -> None:
    first = plain(load_target(folder, settings(folder, dtype="int8")).backend, DecodeRequest([5, 6, 7], 12))
    (kept,) = (folder / "integers").iterdir()
    files = sorted(kept.iterdir())
    before = {file.name: file.stat().st_mtime_ns for file in files}
    load_target(folder, settings(folder, dtype="int8"))
    assert {file.name: file.stat().st_mtime_ns for file in kept.iterdir()} == before
    files[0].write_bytes(files[0].read_bytes()[:40])
    mended = load_target(folder, settings(folder, dtype="int8"))
    assert plain(mended.backend, DecodeRequest([5, 6, 7], 12)) == first
    files[1].unlink()
    mended = load_target(folder, settings(folder, dtype="int8"))
    assert plain(mended.backend, DecodeRequest([5, 6, 7], 12)) == first
    assert [entry.name for entry in kept.parent.iterdir()] == [kept.name]


def test_integers_in_an_older_layout_are_removed_when_they_are_made_anew(folder: Path) -> None:
    keep = folder / "kept"  # other tests may have filled the usual one
    kind = "packed" if kernels.compiled else "integers"
    for name in (f"{kind}-1", "another"):
        (keep / name).mkdir(parents=True)
        (keep / name / "model.safetensors").write_bytes(b"old")
    load_target(folder, settings(folder, dtype="int8", integers=keep))
    left = {entry.name for entry in keep.iterdir()}
    assert "another" in left
    assert f"{kind}-1" not in left
    assert len(left) == 2


def test_an_integer_model_has_no_float_linears(whole: Path, tmp_path: Path) -> None:
    model = load_target(whole, settings(tmp_path, dtype="int8")).backend.model  # type: ignore[attr-defined]
    kinds = {type(module) for module in model.modules()}
    assert {KernelIntegerLinear if kernels.compiled else IntegerLinear, SharedLinear} <= kinds
    assert torch.nn.Linear not in kinds
    assert not any(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3_text", "gpt2", "glm", "opt", "phi"])
def test_an_integer_model_computes_nearly_what_the_float_model_does(tmp_path: Path, family: str) -> None:
    """Norms, biases, rotary frequencies and scaled embeddings are all in their places."""
    torch.manual_seed(3)
    keys = {"initializer_range": 0.05} if family not in ("opt",) else {"init_std": 0.05}
    model = AutoModelForCausalLM.from_config(tiny_config(family, **keys)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "ln_" in name or name.endswith("bias"):
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    prompt = torch.tensor([[3 + (index * 29) % 110 for index in range(24)]])
    with torch.inference_mode():
        expected = model(prompt).logits[0]
    backend: Any = load_target(tmp_path, settings(tmp_path, backend="cpu", dtype="int8")).backend
    found = backend.forward(causal_rows(prompt[0].tolist(), 0, backend.device), backend.new_cache(24))
    error = (found - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() < 0.1


def test_eight_bit_weights_are_kept_only_where_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny(tmp_path / "model", tiny_config("llama"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    load_target(folder, LoadSettings(dtype="int8"))
    assert not [*Path().iterdir()]
    load_target(folder, LoadSettings(dtype="int8", integers=Path("kept")))
    assert [*Path("kept").iterdir()]
