"""Tiny targets, loaded once a session through ``load_target``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from ragla.decode.model import LoadSettings, TargetModel, load_target
from tests.decode.tiny_configs import known_family, tiny_config
from tests.decode.tiny_models import save_tiny

LoadTiny = Callable[..., TargetModel]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny matrices gain nothing from threads, and waiting for each other costs; real models do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def load_tiny(tmp_path_factory: pytest.TempPathFactory) -> LoadTiny:
    """``load_tiny(family, backend, dtype)``: a target, the same one for the same arguments."""
    folders: dict[str, Any] = {}
    loaded: dict[tuple[str, str, str], TargetModel] = {}

    def load(family: str, backend: str = "auto", dtype: str = "auto") -> TargetModel:
        if not known_family(family):
            pytest.skip(f"the installed transformers has no {family} models")
        if family not in folders:
            folders[family] = save_tiny(tmp_path_factory.mktemp(family), tiny_config(family))
        key = (family, backend, dtype)
        if key not in loaded:
            folder = folders[family]
            settings = LoadSettings(backend=backend, dtype=dtype, integers=folder / "integers")  # type: ignore[arg-type]
            loaded[key] = load_target(folder, settings)
        return loaded[key]

    return load
