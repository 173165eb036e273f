"""Profiles: every source, their order, and mistakes that name the place they were made in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ragla.config import Profile
from ragla.errors import UsageError
from ragla.models import registry
from ragla.profiles import LoadedProfile, find_project_file, load, settings, shipped_profiles

WITH_A_MODEL = ("default", "gpu", "int8", "offline", "tiny", "zh")
SHIPPED = tuple(sorted((*WITH_A_MODEL, "remote")))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that is a git root, so that nothing above it is read."""
    (tmp_path / ".git").mkdir()
    return tmp_path


def loaded(
    project: Path,
    flags: dict[str, object] | None = None,
    profile: str | None = None,
    environ: dict[str, str] | None = None,
) -> LoadedProfile:
    return load(flags, profile, environ=environ or {}, folder=project, user_file=project / "user.yaml")


def test_shipped_profiles_are_these() -> None:
    assert tuple(shipped_profiles()) == SHIPPED


@pytest.mark.parametrize("name", WITH_A_MODEL)
def test_every_shipped_profile_loads_with_known_models(project: Path, name: str) -> None:
    result = loaded(project, profile=name)
    assert result.name == name
    assert result.origins["decode.model"] == f"profile {name}"
    assert registry()[result.profile.decode.model].kind == "llm"
    assert registry()[result.profile.retrieve.embedder].kind == "embedder"


def test_the_profile_of_a_server_names_one_on_this_machine(project: Path) -> None:
    found = loaded(project, profile="remote")
    assert found.profile.decode.backend == "remote"
    assert found.profile.decode.remote_url == "http://127.0.0.1:8000/v1"
    assert registry()[found.profile.retrieve.embedder].kind == "embedder"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_key_of_a_shipped_profile_is_explained(name: str) -> None:
    lines = shipped_profiles()[name].read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert sum("#" in line for line in lines) >= 2


def test_offline_profiles_use_models_that_come_in_wheels(project: Path) -> None:
    for name in ("offline", "tiny"):
        profile = loaded(project, profile=name).profile
        assert registry()[profile.decode.model].wheels is not None
        assert registry()[profile.retrieve.embedder].wheels is not None


def test_order_of_the_sources(project: Path) -> None:
    """Each source in turn overrides the one before; the origin follows."""
    (project / "user.yaml").write_text(
        "decode: {max_depth: 2, order: 2, seed: 2, top_k: 2, max_new_tokens: 2}"
    )
    (project / "ragla.yaml").write_text("decode: {order: 3, seed: 3, top_k: 3, max_new_tokens: 3}")
    (project / "mine.yaml").write_text("decode: {seed: 4, top_k: 4, max_new_tokens: 4}")
    result = loaded(
        project,
        flags={"decode.max_new_tokens": "6", "decode.seed": None},
        profile=str(project / "mine.yaml"),
        environ={"RAGLA_DECODE__TOP_K": "5", "RAGLA_DECODE__MAX_NEW_TOKENS": "5"},
    )
    decode, origins = result.profile.decode, result.origins
    assert (decode.max_depth, decode.order, decode.seed, decode.top_k, decode.max_new_tokens) == (
        2,
        3,
        4,
        5,
        6,
    )
    assert origins["decode.max_depth"] == f"user file {project / 'user.yaml'}"
    assert origins["decode.order"] == f"project file {project / 'ragla.yaml'}"
    assert origins["decode.seed"] == f"profile {project / 'mine.yaml'}"
    assert origins["decode.top_k"] == "environment RAGLA_DECODE__TOP_K"
    assert origins["decode.max_new_tokens"] == "flag"
    assert origins["decode.draft_budget"] == "default"


def test_origins_cover_every_setting(project: Path) -> None:
    assert set(loaded(project).origins) == set(settings())
    assert "decode.model" in settings()


def test_the_profile_may_come_from_the_environment(project: Path) -> None:
    assert loaded(project, environ={"RAGLA_PROFILE": "tiny"}).profile.decode.model == "smollm2-135m"
    assert loaded(project, profile="gpu", environ={"RAGLA_PROFILE": "tiny"}).name == "gpu"


def test_a_partial_profile_inherits_the_default(project: Path) -> None:
    (project / "part.yaml").write_text("prompt: {token_budget: 512}\n")
    result = loaded(project, profile=str(project / "part.yaml"))
    default = loaded(project).profile
    assert result.profile.decode == default.decode
    assert result.profile.prompt.token_budget == 512


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("8", "decode.max_depth", 8),
        ("1", "decode.temperature", 1.0),
        ("false", "decode.cost_aware", False),
        ("[a, b]", "decode.stop", ("a", "b")),
        ("123", "decode.model", "123"),
        ("null", "prompt.instruction", None),
        ("Answer: briefly", "prompt.instruction", "Answer: briefly"),
        ("{quant_method: bitsandbytes}", "decode.quantization", {"quant_method": "bitsandbytes"}),
    ],
)
def test_text_of_flags_and_environment_is_read_alike(
    project: Path, text: str, key: str, expected: object
) -> None:
    section, _, field = key.partition(".")
    name = f"RAGLA_{section.upper()}__{field.upper()}"
    for result in (loaded(project, flags={key: text}), loaded(project, environ={name: text})):
        assert getattr(getattr(result.profile, section), field) == expected


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("decode: {max_dept: 3}", "unknown key decode.max_dept", "did you mean decode.max_depth?"),
        ("max_depth: 3", "unknown key max_depth", "did you mean decode.max_depth?"),
        ("prompt: {top_k: 3}", "unknown key prompt.top_k", "did you mean retrieve.top_k?"),
        ("decoding: {}", "unknown key decoding", "did you mean decode?"),
        ("decode: {max_depth: yes}", "decode.max_depth: input should be a valid integer, not true", "branch"),
        ("decode: {model: 7}", "decode.model: input should be a valid string, not 7", "Registry name"),
        ("decode: {stop: end}", 'decode.stop: input should be a list, not "end"', "Strings"),
        ("decode: {max_depth: 0}", "decode.max_depth: input should be greater than or equal to 1", "branch"),
        ("decode: {seed: 2026-01-01}", "decode.seed: input should be a valid integer", "Seed"),
        ("decode: [1]", "decode must hold keys and values", None),
        ("- 1", "holds no settings", "sections"),
        ("decode:\n  seed: 1\n  model: [a\n", "line 4: broken YAML", None),
        ("decode:\n\tseed: 1\n", "line 2: broken YAML", None),
        ("decode: {seed: !!python/object/apply:os.getcwd []}", "line 1: broken YAML", None),
        ("a: &a [1]\nb: *a", "aliases", "write the value out"),
        ("decode: {model: \x07}", "not a YAML text", None),
    ],
)
def test_mistakes_in_a_file_name_it_and_the_key(
    project: Path, content: str, message: str, hint: str | None
) -> None:
    (project / "ragla.yaml").write_text(content)
    with pytest.raises(UsageError) as caught:
        loaded(project)
    assert str(caught.value).startswith(f"project file {project / 'ragla.yaml'}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert hint is None or hint in (caught.value.hint or "")


def test_a_mistake_is_reported_even_where_a_flag_overrides_it(project: Path) -> None:
    (project / "ragla.yaml").write_text("decode: {seed: x}")
    with pytest.raises(UsageError, match=r"project file .*decode\.seed"):
        loaded(project, flags={"decode.seed": 1})


def test_a_file_that_is_not_utf8(project: Path) -> None:
    (project / "ragla.yaml").write_bytes("decode: {model: é}".encode("latin-1"))
    with pytest.raises(UsageError, match="not a YAML text"):
        loaded(project)


@pytest.mark.parametrize("key", ["decode.answers_mib", "decode.question_mib"])
def test_a_memory_cap_is_a_number_or_automatic(project: Path, key: str) -> None:
    name = key.partition(".")[2]
    for text, value in (("auto", "auto"), ("0.5", 0.5), ("64", 64.0)):
        assert getattr(loaded(project, flags={key: text}).profile.decode, name) == value
    for wrong in ("0", "-1", ".inf", ".nan", "lots", "true", "null", "[1]"):
        with pytest.raises(UsageError, match=rf"flag: decode\.{name}: input should be") as caught:
            loaded(project, flags={key: wrong})
        assert "MiB; auto: 2 %" in (caught.value.hint or "")


def test_an_empty_file_and_a_byte_order_mark_are_fine(project: Path) -> None:
    (project / "user.yaml").write_text("# nothing\n")
    (project / "ragla.yaml").write_bytes("\ufeffdecode:\n  seed: 5\nprompt:\n".encode())
    assert loaded(project).profile.decode.seed == 5


def test_a_project_file_cannot_run_remote_code(project: Path) -> None:
    (project / "ragla.yaml").write_text("decode: {trust_remote_code: true}")
    with pytest.raises(UsageError, match=r"decode\.trust_remote_code may not be set by a project file"):
        loaded(project)
    (project / "ragla.yaml").unlink()
    assert loaded(project, flags={"decode.trust_remote_code": "true"}).profile.decode.trust_remote_code


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RAGLA_DECODE__MAX_DEPT", "did you mean RAGLA_DECODE__MAX_DEPTH?"),
        ("RAGLA_DECODE_MAX_DEPTH", "did you mean RAGLA_DECODE__MAX_DEPTH?"),
        ("RAGLA_ZZZZ__QQQQ", "ragla config"),
    ],
)
def test_an_unknown_environment_setting_is_refused(project: Path, name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        loaded(project, environ={name: "1"})
    assert hint in (caught.value.hint or "")


def test_other_environment_names_are_left_alone(project: Path) -> None:
    others = {"RAGLA_INDEX": "x", "RAGLA_CACHE": "y", "RAGLA_TEST_EXAMPLES": "9", "PATH": "z"}
    assert loaded(project, environ=others).profile == loaded(project).profile


def test_mistakes_in_flags_and_environment_name_them(project: Path) -> None:
    with pytest.raises(UsageError, match=r"flag: unknown key decode\.sead"):
        loaded(project, flags={"decode.sead": "1"})
    with pytest.raises(UsageError, match=r"flag decode\.stop: '\[a' is no YAML value"):
        loaded(project, flags={"decode.stop": "[a"})
    with pytest.raises(UsageError, match=r"environment RAGLA_DECODE__SEED: decode\.seed: input should be"):
        loaded(project, environ={"RAGLA_DECODE__SEED": "x"})


def test_an_unknown_profile_names_the_nearest_or_all(project: Path) -> None:
    with pytest.raises(UsageError, match="unknown profile tinny") as near:
        loaded(project, profile="tinny")
    assert near.value.hint == "did you mean tiny?"
    with pytest.raises(UsageError, match="unknown profile qqq") as far:
        loaded(project, profile="qqq")
    assert all(name in (far.value.hint or "") for name in SHIPPED)
    with pytest.raises(UsageError, match=r"there is no profile file .*none\.yaml"):
        loaded(project, profile=str(project / "none.yaml"))


def test_the_project_file_is_found_upward_but_not_above_the_root(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "ragla.yaml").write_text("")
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project_file(inner) == project / "ragla.yaml"
    (project / "a" / ".git").mkdir()
    assert find_project_file(inner) is None
    (project / "a" / ".git").rmdir()
    monkeypatch.setenv("HOME", str(project / "a"))
    monkeypatch.setenv("USERPROFILE", str(project / "a"))
    assert find_project_file(inner) is None


def test_a_profile_written_out_loads_again(project: Path) -> None:
    """What a profile says survives YAML, so a shown profile can be saved and used."""
    original = loaded(project, profile="int8").profile
    (project / "again.yaml").write_text(yaml.safe_dump(original.model_dump(mode="json")))
    assert loaded(project, profile=str(project / "again.yaml")).profile == original


def test_profiles_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Profile().decode.seed = 3  # type: ignore[misc]
