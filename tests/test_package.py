"""The wheel: everything ragla needs at run time is in it, and it runs where there is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import ragla
from ragla import __version__
from ragla.trie import core

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this checkout."""
    if not (CHECKOUT / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    return build("--sdist", CHECKOUT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in the source distribution: no file of the checkout that is not in it helps the build."""
    folder = tmp_path_factory.mktemp("unpacked")
    shutil.unpack_archive(sdist, folder, filter="data")
    [root] = folder.iterdir()
    return root


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the source distribution makes."""
    return build("--wheel", unpacked, tmp_path_factory.mktemp("dist"))


def build(what: str, source: Path, folder: Path, **environment: str) -> Path:
    """What ``python -m build`` puts into ``folder``."""
    command = [sys.executable, "-m", "build", what, "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, timeout=120)
    [built] = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a new environment that has the wheel; its dependencies are this one's."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    binaries = home / "bin"
    packages = next((home / "lib").glob("python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--python", str(binaries / "python"), "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    # after its own packages, so that ragla itself can only come from the wheel
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return binaries


def run(command: list[str | Path], folder: Path) -> str:
    """stdout of a command run in ``folder``, which is no checkout."""
    private = ("RAGLA_", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(private)}
    environment["XDG_CONFIG_HOME"] = str(folder)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def test_the_wheel_holds_profiles_registry_and_every_module(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"ragla/configs/{path.name}" for path in (CHECKOUT / "configs").glob("*.yaml")} <= held
    assert "ragla/registry.yaml" in held
    package = CHECKOUT / "ragla"
    assert {path.relative_to(CHECKOUT).as_posix() for path in package.rglob("*.py")} <= held
    assert any(name.endswith("licenses/LICENSE") for name in held)
    assert not [name for name in held if name.startswith(("tests/", "corpora/"))]


@pytest.mark.skipif(not core.compiled, reason="the compiled core is not built here")
def test_the_wheel_holds_the_compiled_core_and_says_so(wheel: Path) -> None:
    held = zipfile.ZipFile(wheel).namelist()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert [name for name in held if "_core." in name] == [
        "ragla/trie/_core.pyi", f"ragla/trie/_core{suffix}"
    ]  # fmt: skip
    assert f"ragla/decode/backend/_kernels{suffix}" in held
    assert not [name for name in held if name.endswith((".c", ".h"))]
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in wheel.name
    assert not wheel.name.endswith("-any.whl")


def test_without_a_compiler_the_wheel_is_pure(unpacked: Path, tmp_path: Path) -> None:
    pure = build("--wheel", unpacked, tmp_path / "dist", CC="no-such-compiler")
    assert pure.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(pure).namelist() if name.endswith((".so", ".pyd"))]


@pytest.mark.skipif(not core.compiled, reason="the compiled core is not built here")
def test_the_installed_package_drafts_compiled(installed: Path, tmp_path: Path) -> None:
    script = "from ragla.trie import core, _core; print(core.compiled, core.Windows is _core.Windows)"
    assert run([installed / "python", "-c", script], tmp_path) == "True True\n"


def test_the_installed_command_runs_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    where = run([installed / "python", "-c", "import ragla; print(ragla.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert not Path(where.strip()).samefile(ragla.__file__)
    assert run([installed / "ragla", "--version"], tmp_path) == f"ragla {__version__}\n"
    assert "decode.model" in run([installed / "ragla", "config", "show"], tmp_path)
    assert "smollm2-135m" in run([installed / "ragla", "models", "list"], tmp_path)


def test_the_installed_command_knows_every_profile(installed: Path, tmp_path: Path) -> None:
    script = "from ragla.profiles import *\nfor name in shipped_profiles(): load({}, name); print(name)"
    names = run([installed / "python", "-c", script], tmp_path).split()
    assert names == sorted(path.stem for path in (CHECKOUT / "configs").glob("*.yaml"))
