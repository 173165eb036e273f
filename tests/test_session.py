"""Where things are kept: the index that is meant, the 8-bit weights, the measured step costs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragla import models, session
from ragla.config import Profile
from ragla.decode.backend import kernels
from ragla.decode.budget import StepCost
from ragla.errors import IndexUnusable, ModelUnavailable


@pytest.fixture(autouse=True)
def no_index_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGLA_INDEX", raising=False)


def test_an_index_is_looked_for_here_and_above(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    with pytest.raises(IndexUnusable, match=r"no index in .*b or above") as caught:
        session.find_index(None, deep)
    assert caught.value.hint == "make one: ragla index FOLDER"
    (tmp_path / ".ragla").mkdir()
    assert session.find_index(None, deep) == tmp_path / ".ragla"
    (deep / ".ragla").mkdir()
    assert session.find_index(None, deep) == deep / ".ragla"


def test_a_file_called_like_an_index_is_none(tmp_path: Path) -> None:
    (tmp_path / ".ragla").write_text("")
    with pytest.raises(IndexUnusable):
        session.find_index(None, tmp_path)


def test_a_chosen_index_beats_the_environment_which_beats_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("chosen", "named", ".ragla"):
        (tmp_path / name).mkdir()
    assert session.find_index(None, tmp_path) == tmp_path / ".ragla"
    monkeypatch.setenv("RAGLA_INDEX", str(tmp_path / "named"))
    assert session.find_index(None, tmp_path) == session.new_index(None, tmp_path) == tmp_path / "named"
    chosen = str(tmp_path / "chosen")
    assert session.find_index(chosen, tmp_path) == session.new_index(chosen, tmp_path) == Path(chosen)


def test_a_chosen_index_that_is_not_there_is_not_replaced_by_another(tmp_path: Path) -> None:
    (tmp_path / ".ragla").mkdir()
    with pytest.raises(IndexUnusable, match="no index at") as caught:
        session.find_index(str(tmp_path / "gone"), tmp_path)
    assert caught.value.hint == f"make one: ragla index FOLDER --index {tmp_path / 'gone'}"


def test_a_new_index_is_made_here_not_above(tmp_path: Path) -> None:
    (tmp_path / ".ragla").mkdir()
    assert session.new_index(None, tmp_path / "a") == tmp_path / "a" / ".ragla"
    assert session.new_index("~/mine", tmp_path) == Path.home() / "mine"


def test_integer_weights_follow_the_weights_they_are_made_of(tmp_path: Path) -> None:
    model = tmp_path / "llm"
    model.mkdir()
    weights = model / "model.safetensors"
    weights.write_bytes(b"one")
    first = session.integers_folder(model)
    assert first == session.integers_folder(model)
    assert first.is_relative_to(models.cache_folder())
    assert first.name.startswith("llm-")
    weights.write_bytes(b"four")
    assert session.integers_folder(model) != first


def test_a_tokenizer_is_known_by_the_files_that_number_its_tokens(tmp_path: Path) -> None:
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    for folder, files in ((fast, ["tokenizer.json"]), (slow, ["vocab.json", "merges.txt", "spiece.model"])):
        folder.mkdir()
        for name in [*files, "tokenizer_config.json", "config.json"]:
            (folder / name).write_text("{}")
        for name in files:
            before = session.tokenizer_key(folder)
            (folder / name).write_text(f"{name} changed")
            assert session.tokenizer_key(folder) != before
        before = session.tokenizer_key(folder)
        (folder / "tokenizer_config.json").write_text('{"chat_template": ""}')
        (folder / "model.safetensors").write_text("")
        assert session.tokenizer_key(folder) == before
    assert session.tokenizer_key(fast) != session.tokenizer_key(slow)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "tokenizer.json").write_text("tokenizer.json changed")
    assert session.tokenizer_key(copy) == session.tokenizer_key(fast)


def test_a_model_is_known_by_weights_number_format_and_tokenizer(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "model.safetensors", "config.json"):
        (tmp_path / name).write_text("{}")
    keys = [session.model_key(tmp_path, "float32")]
    assert session.model_key(tmp_path, "float32") == keys[0]
    keys.append(session.model_key(tmp_path, "int8"))
    (tmp_path / "model.safetensors").write_text("other")
    keys.append(session.model_key(tmp_path, "float32"))
    (tmp_path / "tokenizer.json").write_text("other")
    keys.append(session.model_key(tmp_path, "float32"))
    assert len(set(keys)) == 4


def target(**changes: Any) -> Any:
    backend = SimpleNamespace(name="cpu", device="cpu")
    return SimpleNamespace(dtype="float32", backend=backend, **changes)


def test_step_costs_are_kept_for_the_same_conditions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among them the kernels: a cache can outlive a machine, and one name can be given to several."""
    profile = Profile()
    cost = session.load_step_cost(profile, target())
    assert cost.table == {}
    session.save_step_cost(profile, target(), StepCost({0: {1: 0.5, 8: 0.75}, 2: {1: 0.625}}))
    assert session.load_step_cost(profile, target()).table == {0: {1: 0.5, 8: 0.75}, 2: {1: 0.625}}
    other = target()
    other.dtype = "int8"
    assert session.load_step_cost(profile, other).table == {}
    monkeypatch.setattr(kernels, "kind", lambda: "another")
    assert session.load_step_cost(profile, target()).table == {}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"a": {"1": 2}}', '{"0": 3}', '{"0": {"1": "x"}}', '{"0": null}']
)
def test_damaged_step_costs_are_measured_again(content: str) -> None:
    session.save_step_cost(Profile(), target(), StepCost({0: {1: 0.5}}))
    [path] = (models.cache_folder() / "step-cost").iterdir()
    path.write_text(content)
    assert session.load_step_cost(Profile(), target()).table == {}


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAGLA_CACHE", str(tmp_path / "file" / "below"))
    session.save_step_cost(Profile(), target(), StepCost({0: {1: 0.5}}))
    assert session.load_step_cost(Profile(), target()).table == {}


def test_a_missing_model_is_said_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelUnavailable, match="not on this machine"):
        session.open_target(Profile())
    with pytest.raises(ModelUnavailable, match="not on this machine"):
        session.open_embedder(Profile())
