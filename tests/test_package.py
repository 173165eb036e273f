"""The wheel: everything ragla needs at run time is in it, and it runs where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import ragla
from ragla import __version__

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    if not (CHECKOUT / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(CHECKOUT)], check=True, capture_output=True, timeout=120)
    [built] = folder.glob("*.whl")
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
