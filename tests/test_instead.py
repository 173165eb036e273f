"""A target model that is not here: the hint names the profile that could be used in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragla import models
from ragla.errors import ModelUnavailable
from ragla.instead import located_target
from ragla.profiles import load


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a user without settings."""
    monkeypatch.setenv("RAGLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


def pulled(*names: str) -> None:
    for name in names:
        folder = models.model_folder(name)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / models.MANIFEST).write_text(json.dumps({"name": name, "files": {"config.json": 2}}))


def hint_under(profile: str) -> str | None:
    with pytest.raises(ModelUnavailable, match="is not on this machine") as caught:
        located_target(load(profile=profile).profile)
    return caught.value.hint


def test_the_profile_with_the_largest_model_that_is_here_is_named() -> None:
    assert hint_under("default") == "ragla models pull qwen2.5-1.5b"
    pulled("smollm2-135m")
    assert hint_under("default") == "ragla models pull qwen2.5-1.5b"  # its embedder is not here
    pulled("minilm-l6")
    expected = "ragla models pull qwen2.5-1.5b, or use --profile {}, whose models are here"
    assert hint_under("default") == expected.format("tiny")
    pulled("qwen2.5-coder-1.5b")
    assert hint_under("default") == expected.format("offline")
    assert located_target(load({}, "offline").profile) == models.model_folder("qwen2.5-coder-1.5b")


def test_a_profile_that_searches_another_index_or_on_another_device_is_not() -> None:
    pulled("minilm-l6", "smollm2-135m", "qwen2.5-coder-1.5b")
    assert hint_under("zh") == "ragla models pull qwen2.5-1.5b"
    assert hint_under("gpu") == "ragla models pull qwen2.5-7b"


def test_a_name_that_means_no_model_keeps_its_hint() -> None:
    pulled("minilm-l6", "smollm2-135m")
    with pytest.raises(ModelUnavailable) as caught:
        located_target(load({"decode.model": "smollm2"}, "default").profile)
    assert caught.value.hint == "did you mean smollm2-135m?"
