"""Which flags of the bench go together: comparing decoders, replaying rules, or recording answers."""

from __future__ import annotations

from collections.abc import Collection

from ragla.errors import UsageError

SETTINGS = frozenset({"--profile", "--set", "--json", "--limit"})
ALLOWED = {
    "--replay": SETTINGS | {"--budgets", "--plot"},
    "--record": SETTINGS | {"--force", "--questions", "--index", "--model"},
    "": SETTINGS | {"--compare", "--runs", "--questions", "--index", "--model"},
}
DOES = {
    "--replay": "replays recorded answers without a model",
    "--record": "records answers of the plain loop",
}


def check_flags(given: Collection[str]) -> None:
    """Refuse flags, long names as given on the command line, that do not go together. Raises UsageError."""
    mode = next((mode for mode in DOES if mode in given), "")
    strange = [flag for flag in given if flag != mode and flag not in ALLOWED[mode]]
    if not strange:
        return
    if mode:
        raise UsageError(f"{mode} {DOES[mode]}: {strange[0]} has no place there", f"leave {strange[0]} out")
    needed = next(other for other in DOES if strange[0] in ALLOWED[other])
    raise UsageError(f"{strange[0]} belongs to {needed}", f"add {needed} FILE.jsonl, or leave it out")
