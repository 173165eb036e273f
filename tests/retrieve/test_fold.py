from __future__ import annotations

import pytest

from ragla.retrieve.fold import are_copies, select
from ragla.retrieve.passage import Passage, ScoredPassage

WORDS = " ".join(f"word{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(120))


def cut(
    texts: dict[int, str], document: int, start: int, end: int, score: float, title: str = ""
) -> ScoredPassage:
    path = f"{document}.txt"
    text = texts[document][start:end]
    line = 1 + texts[document].count("\n", 0, start)
    passage = Passage(
        100 * document + start,
        document,
        path,
        "/" + path,
        title,
        text,
        start,
        end,
        line,
        line + text.count("\n"),
    )
    return ScoredPassage(passage, score, 0.5, score)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (WORDS, WORDS.upper() + ".", True),
        (WORDS, WORDS.replace("wordab ", ""), True),
        (WORDS + " up to 165 euros", WORDS + " up to 170 euros", False),
        (WORDS, WORDS[: len(WORDS) // 2], False),
        ("", "", True),
        ("船停在北码头。", "船停在南码头。", False),
    ],
)
def test_copies(one: str, other: str, same: bool) -> None:
    assert are_copies(one, other) is same
    assert are_copies(other, one) is same


def test_copies_are_folded_and_take_no_place() -> None:
    texts = {1: WORDS, 2: WORDS, 3: "something else"}
    ranked = [cut(texts, 1, 0, len(WORDS), 0.9), cut(texts, 2, 0, len(WORDS), 0.8), cut(texts, 3, 0, 14, 0.7)]
    kept, decisions = select(ranked, 2, -1.0, texts.__getitem__)
    assert [found.passage.path for found in kept] == ["1.txt", "3.txt"]
    assert [copy.path for copy in kept[0].copies] == ["2.txt"]
    assert [one.fate for one in decisions] == ["kept", "copy", "kept"]
    assert decisions[1].into == kept[0].passage.id


def test_copies_are_named_even_when_all_places_are_taken() -> None:
    texts = {1: WORDS, 2: "something else", 3: WORDS}
    ranked = [cut(texts, 1, 0, len(WORDS), 0.9), cut(texts, 2, 0, 14, 0.8), cut(texts, 3, 0, len(WORDS), 0.7)]
    kept, _ = select(ranked, 1, -1.0, texts.__getitem__)
    assert [copy.path for copy in kept[0].copies] == ["3.txt"]


def test_neighbours_are_joined_word_for_word() -> None:
    texts = {1: "first line\n\nsecond line\nthird line\nfourth"}
    ranked = [cut(texts, 1, 12, 23, 0.9), cut(texts, 1, 0, 10, 0.8), cut(texts, 1, 24, 34, 0.7)]
    kept, decisions = select(ranked, 2, -1.0, texts.__getitem__)
    (found,) = kept
    passage = found.passage
    assert passage.text == "first line\n\nsecond line\nthird line" == texts[1][passage.start : passage.end]
    assert (passage.first_line, passage.last_line, found.score) == (1, 4, 0.9)
    assert [one.fate for one in decisions] == ["kept", "joined", "joined"]
    assert found.joined == (100, 112, 124)


def test_neighbours_of_one_chapter_keep_the_title_they_share() -> None:
    texts = {1: "# A\n\n## B\n\nbbb\n\n## C\n\nccc\n\n# D\n\nddd"}
    places = {word: texts[1].index(word) for word in ("bbb", "ccc", "ddd")}
    titles = {"bbb": "A > B", "ccc": "A > C", "ddd": "D"}
    ranked = [
        cut(texts, 1, places[word], places[word] + 3, score, titles[word])
        for word, score in (("ccc", 0.9), ("bbb", 0.6), ("ddd", 0.5))
    ]
    kept, _ = select(ranked, 3, -1.0, texts.__getitem__)
    assert [found.passage.text for found in kept] == ["bbb\n\n## C\n\nccc", "ddd"]
    assert [found.passage.title for found in kept] == ["A", "D"]


def test_passages_apart_or_far_worse_are_not_joined() -> None:
    texts = {1: "aaa bbb ccc ddd"}
    ranked = [cut(texts, 1, 0, 3, 0.9), cut(texts, 1, 8, 11, 0.8), cut(texts, 1, 12, 15, 0.3)]
    kept, _ = select(ranked, 3, -1.0, texts.__getitem__)
    assert [found.passage.text for found in kept] == ["aaa", "ccc", "ddd"]


def test_a_place_holds_three_neighbours_at_most() -> None:
    texts = {1: "a b c d e"}
    ranked = [cut(texts, 1, at, at + 1, 1 - at / 100) for at in range(0, 9, 2)]
    kept, _ = select(ranked, 3, -1.0, texts.__getitem__)
    assert [found.passage.text for found in kept] == ["a b c", "d e"]


def test_what_is_below_the_floor_or_past_the_last_place() -> None:
    texts = {1: "one two", 2: "three", 3: "four"}
    ranked = [cut(texts, 1, 0, 3, 0.9), cut(texts, 2, 0, 5, 0.8), cut(texts, 3, 0, 4, 0.1)]
    kept, decisions = select(ranked, 1, 0.5, texts.__getitem__)
    assert len(kept) == 1
    assert [one.fate for one in decisions] == ["kept", "past the last place", "below the floor"]
