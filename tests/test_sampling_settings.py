"""The profile's sampling keys: their bounds, and that each reaches the decoder."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ragla.conditions import decode_request
from ragla.config import DecodeSettings
from ragla.decode.model import LoadSettings, TargetModel, load_target
from ragla.errors import UsageError
from ragla.profiles import load
from tests.decode.tiny_configs import END, tiny_config
from tests.decode.tiny_models import plain, save_tiny

PROMPT = [3 + (index * 37) % 110 for index in range(40)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> TargetModel:
    folder = save_tiny(tmp_path_factory.mktemp("llama"), tiny_config("llama"))
    return load_target(folder, LoadSettings(backend="eager"))


def answer(target: TargetModel, **keys: Any) -> list[int]:
    settings = DecodeSettings.model_validate({"max_new_tokens": 24, **keys})
    return plain(target.backend, decode_request(settings, target, PROMPT))


@pytest.mark.parametrize(
    "keys",
    [
        {"presence_penalty": 2.0},
        {"frequency_penalty": 2.0},
        {"repetition_penalty": 2.0},
        {"temperature": 1.0},
        {"temperature": 1.0, "seed": 5},
        {"temperature": 1.0, "top_k": 2},
        {"temperature": 1.0, "top_p": 0.3},
        {"temperature": 1.0, "min_p": 0.9},
    ],
    ids=lambda keys: "-".join(keys),
)
def test_every_key_changes_the_answer(target: TargetModel, keys: dict[str, Any]) -> None:
    without = {key: value for key, value in keys.items() if key == "temperature" and len(keys) > 1}
    assert answer(target, **keys) != answer(target, **without)


def test_min_p_one_is_greedy(target: TargetModel) -> None:
    assert answer(target, temperature=1.0, min_p=1.0) == answer(target)


def test_bad_words_are_not_written(target: TargetModel) -> None:
    usual = answer(target)
    words = [f"t{usual[0]}", f"t{usual[4]} t{usual[5]}"]
    found = answer(target, bad_words=words)
    assert usual[0] not in found
    assert (usual[4], usual[5]) not in pairwise(found)


def test_min_new_tokens_holds_the_end_back(target: TargetModel) -> None:
    settings = DecodeSettings(max_new_tokens=24, bad_words=tuple(f"t{token}" for token in range(3, 120)))
    assert plain(target.backend, decode_request(settings, target, PROMPT))[-1] == END
    late = settings.model_copy(update={"min_new_tokens": 9})
    found = plain(target.backend, decode_request(late, target, PROMPT))
    assert END not in found[:9]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min_p", "1.5"),
        ("min_p", "-0.1"),
        ("min_p", ".nan"),
        ("presence_penalty", "2.5"),
        ("presence_penalty", "-.inf"),
        ("frequency_penalty", "-3"),
        ("frequency_penalty", "much"),
        ("repetition_penalty", "0"),
        ("repetition_penalty", ".nan"),
        ("min_new_tokens", "-1"),
        ("min_new_tokens", "1.5"),
        ("bad_words", "[1]"),
        ("bad_words", "['']"),
        ("bad_words", "word"),
    ],
)
def test_a_value_out_of_bounds_is_named(tmp_path: Path, key: str, value: str) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(UsageError, match=f"decode.{key}") as caught:
        load({f"decode.{key}": value}, environ={}, folder=tmp_path, user_file=tmp_path / "user.yaml")
    assert f"decode.{key} means: " in str(caught.value.hint)
