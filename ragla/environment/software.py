"""What is installed: ragla itself, the packages it needs, its compiled parts, its extras."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from ragla import __version__
from ragla.environment.finding import Finding, Surroundings, judged
from ragla.environment.probe import PACKAGE, Facts

if TYPE_CHECKING:
    from packaging.requirements import Requirement

NOT_FOR_USERS = ("dev",)  # extras
# of the kernels
KINDS = {"portable": "plain C", "avx2": "AVX2", "avx512": "AVX-512", "amx": "AVX-512 and AMX"}
ANEW = "pip install --force-reinstall --no-deps"


def ragla_itself(at: Surroundings) -> Iterator[Finding]:
    """Versions of ragla, Python and the system, and which profile the rest is judged by."""
    system = " ".join(filter(None, (platform.system(), platform.release(), platform.machine())))
    said = f"{__version__}, Python {platform.python_version()}, {system}; profile {at.profile_name}"
    yield Finding("ragla", "ok", said)


# --- packages ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lack:
    """A package that is not as another one needs it. ``installed``: its version, None where it is absent."""

    needed: Requirement
    by: str
    installed: str | None

    def __str__(self) -> str:
        state = "not installed" if self.installed is None else f"{self.installed} installed"
        return f"{self.by} needs {self.needed.name}{self.needed.specifier}, {state}"


def packages(at: Surroundings) -> Iterator[Finding]:
    """Whether everything that ragla needs, and what that needs, is installed in the versions wanted."""
    try:
        metadata.requires("ragla")
    except metadata.PackageNotFoundError:
        mend = f"pip install -e {shlex.quote(str(PACKAGE.parent))}"
        yield Finding("packages", "note", "ragla runs from its sources and is not installed", mend)
        return
    seen: dict[str, str | None] = {}
    lacks = list(_lacks("ragla", frozenset(), seen))
    if not lacks:
        count = sum(version is not None for version in seen.values())
        yield Finding("packages", "ok", f"{count} needed, all there in versions that fit")
        return
    said = "; ".join(str(lack) for lack in lacks[:3]) + (
        f"; and {len(lacks) - 3} more" if len(lacks) > 3 else ""
    )
    wanted = dict.fromkeys(f"{lack.needed.name}{lack.needed.specifier}" for lack in lacks)
    yield Finding("packages", "wrong", said, shlex.join(["pip", "install", *wanted]))


def _lacks(name: str, extras: frozenset[str], seen: dict[str, str | None]) -> Iterator[_Lack]:
    """What is missing or too old below a package; each package is looked at once."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for line in metadata.requires(name) or ():
        needed = Requirement(line)
        if not _is_meant(needed, extras):
            continue
        key = canonicalize_name(needed.name)
        is_new = key not in seen
        if is_new:
            try:
                seen[key] = metadata.version(key)
            except metadata.PackageNotFoundError:
                seen[key] = None
        version = seen[key]
        if version is None or not needed.specifier.contains(version, prereleases=True):
            yield _Lack(needed, name, version)
        elif is_new:
            yield from _lacks(key, frozenset(needed.extras), seen)


def _is_meant(needed: Requirement, extras: frozenset[str]) -> bool:
    """Whether a requirement is one on this system, with these extras."""
    if needed.marker is None:
        return True
    return any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def extras(at: Surroundings) -> Iterator[Finding]:
    """Which of ragla's extras are installed; wrong where the profile needs one that is not."""
    from packaging.requirements import Requirement

    named = metadata.metadata("ragla").get_all("Provides-Extra") or []
    parts: dict[str, list[Requirement]] = {extra: [] for extra in named if extra not in NOT_FOR_USERS}
    for needed in map(Requirement, metadata.requires("ragla") or ()):
        for extra, needs in parts.items():
            if _is_meant(needed, frozenset((extra,))) and not _is_meant(needed, frozenset()):
                needs.append(needed)
    absent = [extra for extra, needs in parts.items() if not all(map(_is_installed, needs))]
    there = [extra for extra in parts if extra not in absent]
    wanted = {
        "quantized": (bool(at.profile.decode.quantization), "sets decode.quantization"),
        "milvus": (at.profile.retrieve.store == "milvus", "keeps passages in Milvus"),
    }
    for extra, (is_wanted, what) in wanted.items():
        if is_wanted and extra in absent:
            said = f"the profile {what}, and the extra {extra} is not installed"
            yield Finding("extras", "wrong", said, f"pip install 'ragla[{extra}]'")
            return
    said = ", ".join(there) or "none installed"
    if absent:
        said += f"; not installed, and not needed: {', '.join(absent)} (pip install 'ragla[{absent[0]}]')"
    yield Finding("extras", "ok", said)


def _is_installed(needed: Requirement) -> bool:
    try:
        return needed.specifier.contains(metadata.version(needed.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


# --- compiled packages ------------------------------------------------------------------------------------


def torch(at: Surroundings) -> Iterator[Finding]:
    """Whether torch can be loaded, and what it makes of this processor."""
    yield from _loaded("torch", at.loaded.get("torch", {}), "torch")


def faiss(at: Surroundings) -> Iterator[Finding]:
    """Whether FAISS can be loaded."""
    yield from _loaded("faiss", at.loaded.get("faiss", {}), "faiss-cpu")


def _loaded(name: str, facts: Facts, distribution: str) -> Iterator[Finding]:
    if error := facts.get("error"):
        yield Finding(name, "wrong", f"cannot be loaded: {error}", f"{ANEW} {distribution}")
        return
    capability = facts.get("capability")
    said = f"{facts.get('version', '?')}" + (f", {capability}" if capability else "")
    yield Finding(name, "ok", said)


def kernels(at: Surroundings) -> Iterator[Finding]:
    """Whether the compiled kernels of the cpu backend run."""
    yield from _built("kernels", at.loaded.get("kernels", {}), "torch's slower ones run")


def drafting(at: Surroundings) -> Iterator[Finding]:
    """Whether the compiled drafting core runs."""
    yield from _built("drafting", at.loaded.get("core", {}), "its twin in Python runs, some 20 times slower")


def _built(name: str, facts: Facts, instead: str) -> Iterator[Finding]:
    if os.environ.get("RAGLA_CORE") == "python":
        yield Finding(name, "note", f"RAGLA_CORE=python: {instead}", "unset RAGLA_CORE")
    elif facts.get("absent"):
        yield Finding(name, "note", f"not compiled: {instead}", _build_anew())
    elif error := facts.get("error"):
        yield Finding(name, "note", f"cannot be loaded: {error}: {instead}", _build_anew())
    else:
        kind = facts.get("kind")
        yield Finding(name, "ok", f"compiled, {KINDS.get(kind, kind)}" if kind else "compiled")


def _build_anew() -> str:
    """The command that compiles what is compiled, and what has to be there before it."""
    checkout = PACKAGE.parent
    is_checkout = (checkout / "hatch_build.py").is_file()
    command = f"pip install --no-deps -e {shlex.quote(str(checkout))}" if is_checkout else f"{ANEW} ragla"
    compiler = any(shutil.which(name) for name in ("cc", "gcc", "clang", "cl"))
    return command if compiler else f"install a C compiler, then {command}"


def integers(at: Surroundings) -> Iterator[Finding]:
    """Whether models can be computed in 8 bit on this processor."""
    lacking = {"absent", "error"} & set(at.loaded.get("kernels", {}))
    compiled = not lacking and os.environ.get("RAGLA_CORE") != "python"
    facts = at.loaded.get("torch", {})
    if compiled or facts.get("integers"):
        yield Finding("8-bit", "ok", f"computed by {'the kernels' if compiled else 'torch (fbgemm)'}")
        return
    wanted = at.profile.decode.dtype == "int8"
    said = "neither the kernels nor torch compute in 8 bit here"
    what = "the profile's int8 model is computed in float32, with four times the memory"
    yield from judged("8-bit", said, (wanted, what, _build_anew()))
