"""Where settings come from: flags, environment, profile, project file, user file, defaults.

Each source is checked on its own, so a mistake is reported with the place it was made in even when a
stronger source overrides it. Nothing here loads a model or prints.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from ragla.config import Profile
from ragla.errors import RaglaError, UsageError
from ragla.user_path import user_path

PROJECT_FILE = "ragla.yaml"
ENV_PREFIX = "RAGLA_"
# Environment names that are no settings: the command line and the model cache read them.
RESERVED_ENV = frozenset({"RAGLA_INDEX", "RAGLA_CACHE", "RAGLA_PROFILE"})
# A file that arrives with someone else's folder must not decide to run someone else's code, nor who is
# told your questions, passages and keys.
NOT_FROM_PROJECTS = {
    "decode.trust_remote_code": "to run a model's code, give --set decode.trust_remote_code=true yourself",
    "decode.remote_url": "to send what you ask to that server, give --set decode.remote_url=URL yourself",
    "retrieve.milvus_uri": "to search there, give --set retrieve.milvus_uri=URI yourself",
    "retrieve.milvus_token_env": "name it in a profile or in your own settings",
    "decode.remote_key_env": "name it in a profile or in your own settings",
    "decode.remote_key_file": "name it in a profile or in your own settings",
}


@dataclass(frozen=True)
class LoadedProfile:
    """All settings of one run, and for every dotted key the source that gave it its value."""

    profile: Profile
    origins: Mapping[str, str]
    name: str


@dataclass(frozen=True)
class _Layer:
    """One source's settings: dotted key → value, with the origin of each as messages name it."""

    values: Mapping[str, object]
    origins: Mapping[str, str]


def load(
    flags: Mapping[str, object] | None = None,
    profile: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    user_file: Path | None = None,
) -> LoadedProfile:
    """Merge every source, the strongest last: default, user file, project file, profile, environment, flags.

    ``flags`` maps dotted keys to values; text is read as a YAML value, None means not given. ``profile``
    is a shipped name or a YAML file. ``environ``, ``folder`` and ``user_file`` replace the process's
    environment, current folder and user file. Raises UsageError naming the source and the key.
    """
    environ = os.environ if environ is None else environ
    chosen = profile or environ.get("RAGLA_PROFILE") or None
    layers = [
        *_default_layer(),
        *_user_layer(user_file or user_file_path()),
        *_project_layer(folder or Path.cwd()),
        *_profile_layer(chosen),
        _environment_layer(environ),
        _flag_layer(flags or {}),
    ]
    merged: dict[str, object] = {}
    origins = dict.fromkeys(settings(), "default")
    for layer in layers:
        _build(layer.values, layer.origins)
        merged |= layer.values
        origins |= layer.origins
    return LoadedProfile(_build(merged, origins), origins, chosen or "default")


def settings() -> dict[str, FieldInfo]:
    """Every setting: dotted key → its field, in the schema's order."""
    found: dict[str, FieldInfo] = {}
    for section, field in Profile.model_fields.items():
        annotation: Any = field.annotation
        found |= {f"{section}.{key}": inner for key, inner in annotation.model_fields.items()}
    return found


def shipped_profiles() -> dict[str, Path]:
    """Name → file of the profiles that come with ragla: in the package, or beside it in a checkout."""
    package = Path(__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if (folder / "default.yaml").is_file():
            return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    raise RaglaError("the profiles that belong to ragla are missing", hint="install ragla again")


def user_file_path() -> Path:
    """The user's own settings, which hold for every project."""
    return platformdirs.user_config_path("ragla") / "config.yaml"


def find_project_file(folder: Path) -> Path | None:
    """``ragla.yaml`` here or further up, not above the git root or the home folder."""
    for candidate in [folder, *folder.parents]:
        if (candidate / PROJECT_FILE).is_file():
            return candidate / PROJECT_FILE
        if (candidate / ".git").exists() or candidate == Path.home():
            return None
    return None


# --- sources ---------------------------------------------------------------------------------------


def _default_layer() -> Iterator[_Layer]:
    path = shipped_profiles()["default"]
    yield _file_layer(path, "default")


def _user_layer(path: Path) -> Iterator[_Layer]:
    if path.is_file():
        yield _file_layer(path, f"user file {path}")


def _project_layer(folder: Path) -> Iterator[_Layer]:
    if (path := find_project_file(folder.absolute())) is None:
        return
    layer = _file_layer(path, f"project file {path}")
    for key, mend in NOT_FROM_PROJECTS.items():
        if key in layer.values:
            raise UsageError(
                f"project file {path}: {key} may not be set by a project file",
                hint=f"remove it there; {mend}",
            )
    yield layer


def _profile_layer(chosen: str | None) -> Iterator[_Layer]:
    if chosen is None:
        return
    shipped = shipped_profiles()
    if chosen in shipped:
        yield _file_layer(shipped[chosen], f"profile {chosen}")
        return
    path = user_path(chosen)
    if path.is_file():
        yield _file_layer(path, f"profile {path}")
        return
    near = difflib.get_close_matches(chosen, shipped, n=1)
    if path.suffix in (".yaml", ".yml"):
        raise UsageError(f"there is no profile file {chosen}", hint=f"shipped profiles: {', '.join(shipped)}")
    raise UsageError(
        f"unknown profile {chosen}",
        hint=f"did you mean {near[0]}?"
        if near
        else f"shipped profiles: {', '.join(shipped)}, or a YAML file",
    )


def _environment_layer(environ: Mapping[str, str]) -> _Layer:
    known = {ENV_PREFIX + key.upper().replace(".", "__"): key for key in settings()}
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for name in sorted(environ):
        if name in known:
            key = known[name]
            values[key], origins[key] = _parsed(key, environ[name], name), f"environment {name}"
        elif name not in RESERVED_ENV and _means_a_setting(name):
            raise _unknown(f"environment variable {name} is no setting", name, known)
    return _Layer(values, origins)


def _means_a_setting(name: str) -> bool:
    """Whether this was meant as a setting: RAGLA_X__Y, or RAGLA_DECODE_… with one underscore."""
    sections = tuple(f"{ENV_PREFIX}{section.upper()}_" for section in Profile.model_fields)
    return name.startswith(sections) or (name.startswith(ENV_PREFIX) and "__" in name)


def _flag_layer(flags: Mapping[str, object]) -> _Layer:
    values = {}
    for key, value in flags.items():
        if value is None:
            continue
        if key not in settings():
            raise _unknown(f"flag: unknown key {key}", key, settings())
        values[key] = _parsed(key, value, f"flag {key}") if isinstance(value, str) else value
    return _Layer(values, dict.fromkeys(values, "flag"))


def _parsed(key: str, text: str, where: str) -> object:
    """Text from outside a file as a YAML value; a setting that is text takes it as it stands."""
    annotation = settings()[key].annotation
    if annotation is str or (annotation == str | None and text not in ("null", "~", "")):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{where}: {text!r} is no YAML value") from error


def _file_layer(path: Path, origin: str) -> _Layer:
    where = origin if str(path) in origin else f"{origin} ({path})"
    values = dict(_flattened(_read_yaml(path, where), where))
    return _Layer(values, dict.fromkeys(values, origin))


def _read_yaml(path: Path, where: str) -> Mapping[object, object]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.SafeLoader)):
            raise UsageError(f"{where}: YAML aliases (*name) are not read", hint="write the value out")
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"{where}: line {line}: broken YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not a YAML text: {str(error).splitlines()[0]}") from error
    except OSError as error:
        raise UsageError(f"{where}: cannot be read: {error.strerror}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(
            f"{where}: holds no settings", hint="write sections, as in `decode:` with keys below it"
        )
    return content


def _flattened(content: Mapping[object, object], where: str) -> Iterator[tuple[str, object]]:
    for section, body in content.items():
        if section not in Profile.model_fields:
            raise _unknown(
                f"{where}: unknown key {section}", str(section), [*Profile.model_fields, *settings()]
            )
        if not isinstance(body, dict | None):
            raise UsageError(f"{where}: {section} must hold keys and values, not {body!r}")
        for key, value in (body or {}).items():
            if (dotted := f"{section}.{key}") not in settings():
                raise _unknown(f"{where}: unknown key {dotted}", dotted, settings())
            yield dotted, value


def _unknown(message: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is no setting, with the nearest that is: by whole name, then by last part."""
    known = list(known)
    lasts = {key.rpartition(".")[2]: key for key in reversed(known)}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    near = near or [
        lasts[key] for key in difflib.get_close_matches(name.rpartition(".")[2], lasts, n=1, cutoff=0.7)
    ]
    return UsageError(
        message, hint=f"did you mean {near[0]}?" if near else "see every setting: ragla config show"
    )


# --- checking --------------------------------------------------------------------------------------


def _build(values: Mapping[str, object], origins: Mapping[str, str]) -> Profile:
    """The profile these values make; strict, so that `yes` is no number and `8` no text."""
    nested: dict[str, dict[str, object]] = {}
    for dotted, value in values.items():
        section, _, key = dotted.partition(".")
        nested.setdefault(section, {})[key] = value
    try:
        # as JSON, the one strict form in which a list may become a tuple and 1 a float
        return Profile.model_validate_json(json.dumps(nested, default=str), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        dotted = ".".join(str(part) for part in first["loc"][:2])
        said = (first["msg"][:1].lower() + first["msg"][1:]).replace("valid array", "list")
        raise UsageError(
            f"{origins[dotted]}: {dotted}: {said}, not {_shown(values[dotted])}",
            hint=f"{dotted} means: {settings()[dotted].description}",
        ) from error


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"
