"""Many passages that say one thing become one: copies are folded, neighbours are joined."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ragla.retrieve.lexical import tokens
from ragla.retrieve.passage import Passage, ScoredPassage

_SHINGLE = 3  # tokens
_ALIKE = 0.9  # Jaccard similarity of shingles (Broder 1997)
_SAME_COSINE = 0.1  # copies lie this near each other; their titles may differ
_JOINED_AT_MOST = 3  # passages; a longer one would crowd the others out of the prompt
_WORTH_JOINING = 0.5  # of the hit's score; less is about something else
_HEADINGS = re.compile(r"^#{1,6} .*$", re.MULTILINE)
_NUMBER = re.compile(r"\d")

Fate = Literal["kept", "copy", "joined", "below the floor", "past the last place", "not reranked"]


@dataclass(frozen=True)
class Decision:
    """What became of a ranked passage. ``into``: the id of the passage it was folded into or joined to."""

    found: ScoredPassage
    fate: Fate
    into: int | None = None


@dataclass
class _Kept:
    """A place in the result, while it may still grow."""

    found: ScoredPassage
    members: list[Passage]
    copies: list[Passage] = field(default_factory=list)


def select(
    ranked: Sequence[ScoredPassage], top_k: int, floor: float, text_of: Callable[[int], str]
) -> tuple[list[ScoredPassage], list[Decision]]:
    """The ``top_k`` best places, and what became of every ranked passage.

    ``text_of`` gives the text of a document by its id. Copies and neighbours take no place of their own.
    """
    places: list[_Kept] = []
    decisions: list[Decision] = []
    sign = functools.cache(_Signature.of)
    for found in ranked:
        if found.score < floor:
            decisions.append(Decision(found, "below the floor"))
        elif (same := _copy_of(found, places, sign)) is not None:
            same.copies.append(found.passage)
            decisions.append(Decision(found, "copy", same.found.passage.id))
        elif len(places) == top_k:
            decisions.append(Decision(found, "past the last place"))
        elif (beside := _neighbour_of(found, places, text_of)) is not None:
            beside.members.append(found.passage)
            decisions.append(Decision(found, "joined", beside.found.passage.id))
        else:
            places.append(_Kept(found, [found.passage]))
            decisions.append(Decision(found, "kept"))
    return [_finished(place, text_of) for place in places], decisions


def _copy_of(
    found: ScoredPassage, places: Sequence[_Kept], sign: Callable[[str], _Signature]
) -> _Kept | None:
    for place in places:
        if abs(found.dense - place.found.dense) <= _SAME_COSINE and any(
            _alike(sign(found.passage.text), sign(member.text)) for member in place.members
        ):
            return place
    return None


def are_copies(one: str, other: str) -> bool:
    """Whether two texts say the same: nearly all runs of three tokens are shared, and all numbers are.

    Two years' editions of a rule may differ in an amount alone, and that is what is asked for.
    """
    return _alike(_Signature.of(one), _Signature.of(other))


@dataclass(frozen=True)
class _Signature:
    """What texts are compared by."""

    numbers: list[str]
    shingles: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, text: str) -> _Signature:
        words = tokens(text)
        numbers = (
            [word for word in words if _NUMBER.search(word)]
            if _NUMBER.search(text) or not text.isascii()
            else []
        )
        runs = zip(*(words[at:] for at in range(_SHINGLE)), strict=False)
        return cls(numbers, frozenset(runs if len(words) >= _SHINGLE else [tuple(words)]))


def _alike(one: _Signature, other: _Signature) -> bool:
    few, many = sorted((len(one.shingles), len(other.shingles)))
    if few < _ALIKE * many or one.numbers != other.numbers:
        return False
    shared = len(one.shingles & other.shingles)
    return shared >= _ALIKE * (few + many - shared)


def _neighbour_of(
    found: ScoredPassage, places: Sequence[_Kept], text_of: Callable[[int], str]
) -> _Kept | None:
    for place in places:
        if (
            len(place.members) < _JOINED_AT_MOST
            and found.score >= _WORTH_JOINING * place.found.score
            and any(_touch(found.passage, member, text_of) for member in place.members)
        ):
            return place
    return None


def _touch(one: Passage, other: Passage, text_of: Callable[[int], str]) -> bool:
    """Whether two passages of a chapter have nothing between them but white space and headings."""
    if one.document_id != other.document_id:
        return False
    if one.title != other.title and not _common_title([one.title, other.title]):
        return False
    first, second = sorted((one, other), key=lambda passage: passage.start)
    return not _HEADINGS.sub("", text_of(one.document_id)[first.end : second.start]).strip()


def _common_title(titles: Sequence[str]) -> str:
    """The headings that all titles begin with."""
    paths = [title.split(" > ") for title in titles]
    shared = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return " > ".join(names[0] for names in shared)


def _finished(place: _Kept, text_of: Callable[[int], str]) -> ScoredPassage:
    if len(place.members) == 1:
        return replace(place.found, copies=tuple(place.copies))
    members = sorted(place.members, key=lambda passage: passage.start)
    start, end = members[0].start, max(member.end for member in members)
    whole = replace(
        place.found.passage,
        title=_common_title([member.title for member in members]),
        text=text_of(members[0].document_id)[start:end],
        start=start,
        end=end,
        first_line=members[0].first_line,
        last_line=max(member.last_line for member in members),
        page=members[0].page,
    )
    joined = tuple(member.id for member in members)
    return replace(place.found, passage=whole, copies=tuple(place.copies), joined=joined)
