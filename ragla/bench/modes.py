"""Which flags of the bench go together: those of comparing, of showing, of replaying, or of recording."""

from __future__ import annotations

from collections.abc import Collection

from ragla.errors import UsageError

OUTPUT = frozenset({"--json", "--quiet", "--verbose", "--debug"})
SETTINGS = OUTPUT | {"--profile", "--set", "--limit"}
CHOOSING = frozenset(
    {"--questions", "--spec-bench", "--split-passages", "--category", "--each", "--index", "--model"}
)
ALLOWED = {
    "--replay": SETTINGS | {"--budgets", "--plot"},
    "--record": SETTINGS | {"--force", "--questions", "--index", "--model"},
    "--show": OUTPUT | {"--markdown", "--plot"},
    "": SETTINGS | CHOOSING | {"--compare", "--quality", "--runs", "--markdown", "--plot"},
}
DOES = {
    "--replay": "replays recorded answers without a model",
    "--record": "records answers of the plain loop",
    "--show": "shows what an earlier bench found",
}
APART = (("--questions", "--spec-bench"), ("--json", "--markdown"))


def check_flags(given: Collection[str]) -> None:
    """Refuse flags, long names as given on the command line, that do not go together. Raises UsageError."""
    mode = next((mode for mode in DOES if mode in given), "")
    strange = [flag for flag in given if flag != mode and flag not in ALLOWED[mode]]
    if strange and mode:
        raise UsageError(f"{mode} {DOES[mode]}: {strange[0]} has no place there", f"leave {strange[0]} out")
    if strange:
        needed = next(other for other in DOES if strange[0] in ALLOWED[other])
        raise UsageError(f"{strange[0]} belongs to {needed}", f"add {needed} FILE.jsonl, or leave it out")
    if "--split-passages" in given and "--spec-bench" not in given:
        raise UsageError("--split-passages belongs to --spec-bench", "add --spec-bench FILE.jsonl")
    for one, other in APART:
        if one in given and other in given:
            raise UsageError(f"{one} and {other} do not go together", f"leave {one} or {other} out")
