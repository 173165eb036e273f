"""What is found out about the surroundings: broken packages, small machines, absent models."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from ragla.config import DecodeSettings, Profile, RetrieveSettings
from ragla.environment import Finding, Surroundings, exit_code, look_around, looks, machine, models, software
from ragla.environment.probe import load_parts
from ragla.environment.weights import bytes_needed
from tests.cli.tiny_models import save_llm
from tests.remote.fake_server import serving

TORCH: dict[str, Any] = {
    "version": "2.13.0",
    "capability": "AVX2",
    "threads": 2,
    "cuda": None,
    "devices": [],
    "mps": False,
    "integers": True,
}
WHOLE = {"torch": TORCH, "faiss": {"version": "1.12"}, "kernels": {"kind": "avx2"}, "core": {}}


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    """An installation that is whole on a machine of two cores; the models are not there."""
    for name in ("RAGLA_CORE", "OMP_NUM_THREADS", "HF_ENDPOINT", *models.OFFLINE, *models.PROXIES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine, "usable_cores", lambda: 2.0)
    return Surroundings(Profile(), "default", WHOLE, tmp_path)


def with_decode(at: Surroundings, **decode: Any) -> Surroundings:
    return replace(at, profile=Profile(decode=DecodeSettings(**decode)))


def told(found: Any) -> Finding:
    (one,) = found
    assert isinstance(one, Finding)
    return one


# --- what is loaded elsewhere -----------------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that come before the real ones; this process has not loaded torch yet."""
    folder = tmp_path / "broken packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return folder


def test_a_package_that_kills_its_process_is_one_line(broken: Path) -> None:
    kill = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})\n"
    (broken / "torch.py").write_text(kill)
    (broken / "faiss.py").write_text("print('its own word'); raise OSError('libgomp: cannot open\\nmore')")
    found = load_parts(["core", "torch", "faiss"])
    assert found == {
        "core": {},
        "torch": {"error": "ends the process that loads it, with SIGILL"},
        "faiss": {"error": "OSError: libgomp: cannot open"},
    }


def test_a_package_that_never_comes_is_one_line(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (broken / "torch.py").write_text("import time; time.sleep(60)\n")
    monkeypatch.setattr("ragla.environment.probe.LONGEST_S", 0.5)
    assert load_parts(["torch"])["torch"] == {"error": "is not loaded after 0 s"}


def test_nothing_of_the_current_folder_is_run(
    broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broken / "torch.py").write_text("raise ImportError('no libtorch')\n")
    here = tmp_path / "documents"
    here.mkdir()
    for name in ("torch", "json", "ragla", "subprocess", "sitecustomize"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')\n")
    monkeypatch.chdir(here)
    assert load_parts(["torch"])["torch"] == {"error": "ImportError: no libtorch"}
    assert not (tmp_path / "owned").exists()


def test_the_installed_packages_are_loaded_and_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    here = load_parts()
    monkeypatch.delitem(sys.modules, "torch")
    found = load_parts()
    assert set(found) == {"torch", "faiss", "kernels", "core"}
    assert found["torch"]["version"] == here["torch"]["version"]
    assert found["faiss"]["dimension"] == 1
    assert not [facts["error"] for facts in found.values() if "error" in facts]


# --- what is said of it -----------------------------------------------------------------------------------


def test_a_broken_package_says_how_to_install_it_again(at: Surroundings) -> None:
    one = told(software.torch(replace(at, loaded={"torch": {"error": "ImportError: libgomp"}})))
    assert (one.state, one.mend) == ("wrong", "pip install --force-reinstall --no-deps torch")
    assert one.said == "cannot be loaded: ImportError: libgomp"
    one = told(software.faiss(replace(at, loaded={"faiss": {"error": "ends with SIGILL"}})))
    assert one.mend == "pip install --force-reinstall --no-deps faiss-cpu"


def test_a_look_that_fails_keeps_no_other_from_being_had(
    at: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Surroundings) -> Any:
        raise ModuleNotFoundError("No module named 'packaging'")

    monkeypatch.setattr(looks, "LOOKS", (("packages", fail), *looks.LOOKS[:1]))
    first, second = look_around(at)
    assert (first.name, first.state) == ("packages", "wrong")
    assert first.said == "cannot be looked at: ModuleNotFoundError: No module named 'packaging'"
    assert (second.name, second.state) == ("ragla", "ok")


def test_every_look_is_had_where_nothing_could_be_loaded(at: Surroundings) -> None:
    found = list(look_around(replace(at, loaded={})))
    names = [one.name for one in found]
    assert {name for name, _ in looks.LOOKS} - {"disk", "reranker"} <= set(names)
    assert not [one.said for one in found if "cannot be looked at" in one.said]


def test_packages_that_are_absent_or_too_old_are_named(
    at: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(software.packages(at)).state == "ok"
    needs = {"ragla": ["torch>=99", "no-such-package>=2", "nothing; extra == 'dev'", "typer"]}
    monkeypatch.setattr(software.metadata, "requires", lambda name: needs.get(name, []))
    one = told(software.packages(at))
    assert one.state == "wrong"
    assert one.said.startswith("ragla needs torch>=99, ")
    assert one.said.endswith("; ragla needs no-such-package>=2, not installed")
    assert one.mend == "pip install 'torch>=99' 'no-such-package>=2'"


def test_extras_are_those_that_ragla_declares(at: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "_is_installed", lambda needed: needed.name != "bitsandbytes")
    one = told(software.extras(at))
    assert one.state == "ok"
    assert "serve" in one.said
    assert "not installed, and not needed: quantized (pip install 'ragla[quantized]')" in one.said
    assert "dev" not in one.said
    one = told(software.extras(with_decode(at, quantization={"quant_method": "bitsandbytes"})))
    assert (one.state, one.mend) == ("wrong", "pip install 'ragla[quantized]'")
    monkeypatch.setattr(software, "_is_installed", lambda needed: needed.name != "pymilvus")
    in_milvus = replace(at, profile=Profile(retrieve=RetrieveSettings(store="milvus")))
    one = told(software.extras(in_milvus))
    assert (one.state, one.mend) == ("wrong", "pip install 'ragla[milvus]'")


@pytest.mark.parametrize(
    ("facts", "state", "said"),
    [
        ({}, "ok", "compiled"),
        ({"absent": True}, "note", "not compiled: its twin in Python runs"),
        ({"error": "ImportError: GLIBC_2.38"}, "note", "cannot be loaded: ImportError: GLIBC_2.38: its twin"),
    ],
)
def test_what_is_not_compiled_says_how_it_is(
    at: Surroundings, facts: dict[str, Any], state: str, said: str
) -> None:
    one = told(software.drafting(replace(at, loaded=WHOLE | {"core": facts})))
    assert one.state == state
    assert one.said.startswith(said)
    assert bool(one.mend) == (state == "note")


def test_what_is_switched_off_says_by_what(at: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGLA_CORE", "python")
    for look in (software.kernels, software.drafting):
        one = told(look(at))
        assert (one.state, one.mend) == ("note", "unset RAGLA_CORE")
    assert told(software.integers(at)).said == "computed by torch (fbgemm)"
    without = replace(at, loaded=WHOLE | {"torch": TORCH | {"integers": False}})
    assert told(software.integers(without)).state == "ok"  # auto is no int8
    assert told(software.integers(with_decode(without, dtype="int8"))).state == "note"


# --- the machine ------------------------------------------------------------------------------------------


def test_threads_that_do_not_fit_the_cores(at: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(machine.threads(at)).state == "ok"
    one = told(machine.threads(with_decode(at, threads=8)))
    assert (one.state, one.mend) == ("note", "-s decode.threads=2")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = replace(at, loaded=WHOLE | {"torch": TORCH | {"threads": 1}})
    one = told(machine.threads(alone))
    assert (one.state, one.mend) == ("note", "unset OMP_NUM_THREADS")
    assert told(machine.threads(with_decode(alone, threads=1))).state == "ok"


def test_a_card_that_is_needed_and_not_there(at: Surroundings) -> None:
    needed = with_decode(at, device="cuda", backend="cuda")
    one = told(machine.gpu(needed))
    assert one.state == "wrong"
    assert one.said == "none: torch is built for the CPU alone, and the profile needs one"
    card = {"name": "H200", "free": 140e9, "total": 150e9}
    cards = [card, {"name": "cuda:1", "error": "CUDA error: ECC"}]
    first, second = machine.gpu(replace(needed, loaded={"torch": TORCH | {"devices": cards, "cuda": "12.8"}}))
    assert (first.state, first.said) == ("ok", "cuda:0 H200, 140.0 GB free of 150.0 GB")
    assert second.state == "wrong"
    assert told(machine.gpu(replace(at, loaded={}))).state == "note"


def test_memory_is_held_against_the_model(
    at: Surroundings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "bytes_needed", lambda *_: 3e9)
    monkeypatch.setattr(machine, "ready_folder", lambda _: tmp_path)
    for free, total, state in ((8e9, 16e9, "ok"), (2e9, 16e9, "note"), (1e9, 2e9, "wrong")):
        monkeypatch.setattr(machine, "free_mebibytes", lambda free=free: free / machine.MIB)
        monkeypatch.setattr(machine, "total_mebibytes", lambda total=total: total / machine.MIB)
        monkeypatch.setattr(machine, "swap_mebibytes", lambda: 0.0)
        one = told(machine.memory(at))
        assert (one.state, bool(one.mend)) == (state, state != "ok")
        assert "takes about 3.4 GB" in one.said


def test_a_full_disk_and_one_that_is_only_to_be_read(
    at: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage: Any = type("Usage", (), {"free": 10e9})
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: usage)
    here = Profile(retrieve=RetrieveSettings(embedder="."), decode=DecodeSettings(model="."))
    there = replace(at, profile=here)
    assert [one.state for one in machine.disk(there)] == ["ok", "ok"]
    monkeypatch.setattr(machine.os, "access", lambda *_: False)
    assert {one.said.rpartition("; ")[2] for one in machine.disk(there)} == {"only to be read"}
    usage.free = 1e6
    assert [one.state for one in machine.disk(there)] == ["wrong", "wrong"]


@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("bfloat16", 2), ("auto", 4)])
def test_the_memory_of_weights_is_that_of_their_numbers(tmp_path: Path, dtype: Any, width: int) -> None:
    folder = save_llm(tmp_path / "llm")
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        numbers = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118
    assert bytes_needed(folder, DecodeSettings(dtype=dtype, device="cpu"), WHOLE) == numbers * width
    in_8_bit = bytes_needed(folder, DecodeSettings(dtype="int8"), WHOLE)
    assert in_8_bit is not None
    assert numbers < in_8_bit < 4 * numbers
    (folder / "model.safetensors").write_bytes(b"\xff" * 20)
    assert bytes_needed(folder, DecodeSettings(), WHOLE) is None


# --- models and network -----------------------------------------------------------------------------------


def test_absent_models_name_what_pulls_them_and_their_exit_code(at: Surroundings) -> None:
    one = told(models.target(at))
    assert (one.state, one.mend, one.exit_code) == ("wrong", "ragla models pull qwen2.5-coder-1.5b", 5)
    one = told(models.embedder(replace(at, profile=Profile(retrieve=RetrieveSettings(embedder="minilm")))))
    assert one.mend == "did you mean minilm-l6?"
    assert list(models.reranker(at)) == []


def test_a_model_that_lost_a_file_is_not_whole(at: Surroundings) -> None:
    from ragla.models import model_folder

    folder = model_folder("qwen2.5-coder-1.5b")
    folder.mkdir(parents=True)
    assert "is missing or damaged" in told(models.target(at)).said
    (folder / "manifest.json").write_text('{"files": {"config.json": 2, "model.safetensors": 99}}')
    (folder / "config.json").write_text("{}")
    assert told(models.target(at)).said.endswith("model.safetensors is missing")
    (folder / "model.safetensors").write_bytes(b"half")
    one = told(models.target(at))
    assert one.said.endswith("model.safetensors has 4 bytes of 99")
    assert one.mend == "ragla models pull qwen2.5-coder-1.5b"


def test_a_model_file_is_not_converted_to_be_looked_at(at: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    one = told(models.target(with_decode(at, model=str(tmp_path / "some.gguf"))))
    assert one.state == "ok"
    assert "converted when it is first used" in one.said


def test_a_model_elsewhere_is_asked_for(at: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVER", "sesame-open-0123456789")
    listed = {"data": [{"id": "parrot-7b", "max_model_len": 8192}]}
    with serving(models=listed) as fake:
        remote = with_decode(at, backend="remote", remote_url=fake.url, remote_key_env="MY_SERVER")
        one = told(models.target(remote))
        assert (one.state, one.said) == ("ok", f"parrot-7b at {fake.url}, window 8192 tokens")
    assert fake.asked[0].headers["authorization"] == "Bearer sesame-open-0123456789"
    assert "qwen" not in told(models.network(remote)).said + told(machine.memory(remote)).said
    one = told(models.target(remote))  # it has ended
    assert (one.state, one.exit_code) == ("wrong", 5)
    assert "cannot be reached" in one.said
    one = told(models.target(with_decode(at, backend="remote")))
    assert (one.state, one.exit_code) == ("wrong", 2)


def test_the_network_says_when_it_is_kept_from(at: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "http://me:secret-word@proxy:3128"
    monkeypatch.setenv("HTTPS_PROXY", secret)
    one = told(models.network(at))
    assert one.state == "ok"
    assert one.said == "needed once, for minilm-l6, qwen2.5-coder-1.5b; HTTPS_PROXY is set"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert told(models.network(at)).state == "ok"  # both come in wheels, too
    one = told(models.network(with_decode(at, model="someone/other")))
    assert (one.state, one.mend) == ("note", "unset HF_HUB_OFFLINE")


def test_step_costs_that_are_damaged_are_named(at: Surroundings) -> None:
    from ragla.models import cache_folder

    assert told(models.step_costs(at)).said.startswith("none yet")
    folder = cache_folder() / "step-cost"
    folder.mkdir(parents=True)
    (folder / "a b.json").write_text("{}")
    assert told(models.step_costs(at)).state == "ok"
    (folder / "a b.json").write_text("{")
    one = told(models.step_costs(at))
    assert (one.state, one.mend) == ("note", f"rm '{folder / 'a b.json'}'")


def test_what_is_broken_comes_before_a_model_that_is_absent() -> None:
    broken, absent = Finding("torch", "wrong", "x"), Finding("model", "wrong", "x", exit_code=5)
    assert exit_code([absent, broken]) == 1
    assert exit_code([absent]) == 5
    assert exit_code([Finding("gpu", "note", "x"), Finding("ragla", "ok", "x")]) == 0
