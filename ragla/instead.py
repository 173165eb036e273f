"""A target model that is not here, and the profile that could be used in its place as things are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ragla import models, profiles
from ragla.errors import ModelUnavailable, RaglaError

if TYPE_CHECKING:
    from ragla.config import Profile


def located_target(profile: Profile) -> Path:
    """The folder of the profile's target model.

    Raises ModelUnavailable; where one could be pulled, its hint also names a profile whose models are here.
    """
    name = profile.decode.model
    try:
        return models.locate(name)
    except ModelUnavailable as error:
        pull = f"ragla models pull {name}"
        if error.hint != pull or (other := _usable(profile)) is None:
            raise
        hint = f"{pull}, or use --profile {other}, whose models are here"
        raise ModelUnavailable(str(error), hint) from error


def _usable(profile: Profile) -> str | None:
    """The shipped profile with the largest model of those that search the same index on the same device."""
    return max(_complete(profile), default=(0, None))[1]


def _complete(profile: Profile) -> Iterator[tuple[int, str]]:
    for name in profiles.shipped_profiles():
        try:
            other = profiles.load(profile=name).profile
            same = (
                other.decode.backend != "remote"
                and other.decode.device == profile.decode.device
                and other.retrieve.embedder == profile.retrieve.embedder
            )
            if same and models.locate(other.retrieve.embedder) and models.locate(other.decode.model):
                entry = models.registry().get(other.decode.model)
                yield (entry.bytes if entry else 0), name
        except RaglaError:  # not here, or not to be had with the user's own settings
            continue
