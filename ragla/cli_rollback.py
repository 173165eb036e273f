"""``ragla index --rollback``: the index as it was before the last run that changed it."""

from __future__ import annotations

from pathlib import Path

from ragla.terminal import errors, print_json, show_notice


def roll_back(index_path: str | None, as_json: bool) -> None:
    """Bring the index of before back, and say what it holds."""
    from ragla import session
    from ragla.earlier import forget_stale
    from ragla.render import counted, one_line
    from ragla.retrieve.generations import rollback

    place = session.find_index(index_path, Path.cwd())
    made = rollback(place)
    dropped, problem = forget_stale(place)
    if as_json:
        print_json(
            {
                "schema": "ragla.rollback/1",
                "index": str(place),
                "files": made.files,
                "passages": made.passages,
                "changed_at": made.changed_at.isoformat() if made.changed_at else None,
                "answers_dropped": dropped,
            }
        )
        return
    changed = f", last changed {made.changed_at.astimezone():%Y-%m-%d %H:%M:%S}" if made.changed_at else ""
    errors().print(
        f"back to {counted(made.files, 'file')}, {counted(made.passages, 'passage')}{changed} "
        f"· {one_line(str(place))}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    next_steps = "  a second --rollback undoes this; ragla index reads what the folders hold now"
    errors().print(next_steps, soft_wrap=True)
    if dropped:
        errors().print(f"  dropped with its documents: {counted(dropped, 'earlier answer')}", soft_wrap=True)
    show_notice(problem)
