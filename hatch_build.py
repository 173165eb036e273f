"""Builds the optional compiled drafting core, ``ragla/trie/_core*``, where there is a C compiler.

It goes into wheels, which then are for one platform and Python, and beside its sources for editable
installs. Without a compiler or Python's headers the wheel is pure, and the twins in Python run.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("ragla", "trie")
SOURCES = ("_core.c", "_windows.c", "_growth.c", "_arguments.c")
# no multiply-add in one rounding: the core's doubles are those of its twins, to the last bit
UNIX_FLAGS = ["-std=c11", "-O2", "-ffp-contract=off"]
MSVC_FLAGS = ["/std:c11", "/O2", "/fp:precise"]


class CoreBuildHook(BuildHookInterface[Any]):
    """Compiles before a wheel is packed; no compiler is a warning."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the core to a wheel, or put it into the checkout of an editable one."""
        self._work = TemporaryDirectory()
        target = PACKAGE / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
        built = _compiled(Path(self.root), Path(self._work.name))
        if built is None:
            self.app.display_warning("the compiled drafting core was not built; its twin in Python runs")
        if version == "editable":
            _put(built, Path(self.root) / target)
        elif built is not None:
            build_data["force_include"][str(built)] = target.as_posix()
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled and packed."""
        self._work.cleanup()


def _compiled(root: Path, work: Path) -> Path | None:
    """The extension module, built in ``work``; None where it cannot be built."""
    try:
        from setuptools import Distribution, Extension
        from setuptools.command.build_ext import build_ext
        from setuptools.errors import BaseError, CCompilerError
    except ImportError:  # a build without isolation
        return None

    class BuildCore(build_ext):
        def build_extension(self, ext: Any) -> None:
            ext.extra_compile_args = MSVC_FLAGS if self.compiler.compiler_type == "msvc" else UNIX_FLAGS
            ext.libraries = [] if os.name == "nt" else ["m"]
            super().build_extension(ext)

    sources = [str(root / PACKAGE / name) for name in SOURCES]
    distribution = Distribution({"ext_modules": [Extension("_core", sources)]})
    command = BuildCore(distribution, build_lib=str(work), build_temp=str(work))
    command.ensure_finalized()
    try:
        command.run()
    except (BaseError, CCompilerError, OSError):
        return None
    return Path(command.get_ext_fullpath("_core"))


def _put(built: Path | None, target: Path) -> None:
    """Replace the core of a checkout, or remove one that is older than its sources."""
    if built is None:
        target.unlink(missing_ok=True)
        return
    beside = target.with_suffix(".new")
    shutil.copy(built, beside)
    beside.replace(target)  # a process that runs the old one keeps it
