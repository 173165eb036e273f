"""Models from the Hugging Face hub: weights, tokenizer and configuration, never code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragla.errors import ModelUnavailable
from ragla.models import FOREIGN_FILES, MODEL_FILES, is_model_file, lacks, sha256_of

TIMEOUT_S = 5.0


def describe(hub_id: str) -> tuple[str, dict[str, str], int]:
    """(commit, sha256 of each weights file, bytes of the files to fetch) as the hub states them.

    Raises ModelUnavailable when the hub is switched off, does not answer in 5 s or has no such model.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        raise refused(hub_id, "HF_HUB_OFFLINE is set")
    try:
        described = HfApi().model_info(hub_id, timeout=TIMEOUT_S, files_metadata=True)
    except Exception as error:  # the client raises from four libraries; all mean: not from there
        raise refused(hub_id, one_line(error)) from error
    wanted = [file for file in described.siblings or [] if is_model_file(file.rfilename)]
    digests = {file.rfilename: str(file.lfs.sha256) for file in wanted if file.lfs is not None}
    return described.sha or "main", digests, sum(file.size or 0 for file in wanted)


def fetch(
    hub_id: str, revision: str, digests: dict[str, str], downloads: Path, model: Path
) -> dict[str, Any]:
    """Download one commit by way of ``downloads`` (resumable) into ``model``; its part of the manifest."""
    from huggingface_hub import snapshot_download

    try:
        snapshot = snapshot_download(
            hub_id,
            revision=revision,
            cache_dir=downloads,
            etag_timeout=TIMEOUT_S,
            allow_patterns=list(MODEL_FILES),
            ignore_patterns=list(FOREIGN_FILES),
        )
    except Exception as error:  # as above
        raise refused(hub_id, one_line(error)) from error
    _take_over(Path(snapshot), model, digests)
    if lack := lacks(model):
        raise refused(hub_id, f"the repository has {lack}")
    return {"source": "hub", "hub": hub_id, "revision": revision, "weights": digests}


def _take_over(snapshot: Path, model: Path, digests: dict[str, str]) -> None:
    """Move a snapshot's files (links into the download cache) to the model folder, checking digests."""
    for path in sorted(snapshot.rglob("*")):
        if path.is_dir():
            continue
        name = path.relative_to(snapshot)
        if (stated := digests.get(name.as_posix())) and sha256_of(path) != stated:
            path.resolve().unlink()
            raise ModelUnavailable(f"{name} arrived damaged from the hub", hint="run the same command again")
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        path.resolve().replace(model / name)


def refused(hub_id: str, why: str) -> ModelUnavailable:
    """The error for a model that the hub does not give."""
    return ModelUnavailable(
        f"the hub does not give {hub_id}: {why}",
        hint="connect to the network, or use --profile offline, whose models come in wheels",
    )


def one_line(error: BaseException) -> str:
    """The first line of an error's text that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
