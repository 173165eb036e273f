"""Builds the optional extension modules where there is a C compiler: the drafting core and the kernels.

They go into wheels, which then are for one platform and Python, and beside their sources for editable
installs. Without a compiler or Python's headers the wheel is pure, and what they do is done in Python and
by torch.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# no multiply-add in one rounding unless it is written: the drafting core's doubles are those of its twins
UNIX_FLAGS = ["-std=c11", "-ffp-contract=off"]
MSVC_FLAGS = ["/std:c11", "/O2", "/fp:precise"]


class Module(NamedTuple):
    """An extension module of a package, its sources, and what is done without it."""

    package: Path
    name: str
    sources: tuple[str, ...]
    flag: str  # how far compilers other than MSVC's optimise
    without: str

    @property
    def target(self) -> Path:
        """Where it lies in a checkout and in a wheel."""
        return self.package / f"{self.name}{sysconfig.get_config_var('EXT_SUFFIX')}"


MODULES = (
    Module(
        Path("ragla", "trie"),
        "_core",
        ("_core.c", "_windows.c", "_growth.c", "_arguments.c"),
        "-O2",
        "the compiled drafting core was not built; its twin in Python runs",
    ),
    Module(
        Path("ragla", "decode", "backend"),
        "_kernels",
        ("_kernels.c", "_run.c", "_threads.c", "_amx.c", "_avx512.c", "_avx2.c", "_portable.c"),
        "-O3",
        "the compiled kernels were not built; torch's slower ones run",
    ),
)


class CoreBuildHook(BuildHookInterface[Any]):
    """Compiles before a wheel is packed; no compiler is a warning."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the modules to a wheel, or put them into the checkout of an editable one."""
        self._work = TemporaryDirectory()
        for module in MODULES:
            built = _compiled(module, Path(self.root), Path(self._work.name))
            if built is None:
                self.app.display_warning(module.without)
            if version == "editable":
                _put(built, Path(self.root) / module.target)
            elif built is not None:
                build_data["force_include"][str(built)] = module.target.as_posix()
                build_data["pure_python"] = False
                build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled and packed."""
        self._work.cleanup()


def _compiled(module: Module, root: Path, work: Path) -> Path | None:
    """The extension module, built in ``work``; None where it cannot be built."""
    try:
        from setuptools import Distribution, Extension
        from setuptools.command.build_ext import build_ext
        from setuptools.errors import BaseError, CCompilerError
    except ImportError:  # a build without isolation
        return None

    class BuildModule(build_ext):
        def build_extension(self, ext: Any) -> None:
            msvc = self.compiler.compiler_type == "msvc"
            ext.extra_compile_args = MSVC_FLAGS if msvc else [*UNIX_FLAGS, module.flag]
            ext.libraries = [] if os.name == "nt" else ["m"]
            super().build_extension(ext)

    sources = [str(root / module.package / name) for name in module.sources]
    distribution = Distribution({"ext_modules": [Extension(module.name, sources)]})
    command = BuildModule(distribution, build_lib=str(work), build_temp=str(work))
    command.ensure_finalized()
    try:
        command.run()
    except (BaseError, CCompilerError, OSError):
        return None
    return Path(command.get_ext_fullpath(module.name))


def _put(built: Path | None, target: Path) -> None:
    """Replace the module of a checkout, or remove one that is older than its sources."""
    if built is None:
        target.unlink(missing_ok=True)
        return
    beside = target.with_suffix(".new")
    shutil.copy(built, beside)
    beside.replace(target)  # a process that runs the old one keeps it
