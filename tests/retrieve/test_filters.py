from __future__ import annotations

import pytest

from ragla.errors import UsageError
from ragla.retrieve.filters import Filters

DOCUMENTS = [
    (1, "en/travel.md", "handbook/en/travel.md"),
    (2, "en/guides/boats.TXT", "handbook/en/guides/boats.TXT"),
    (3, "zh/差旅.md", "handbook/zh/差旅.md"),
    (4, "page.htm", "site/page.htm"),
    (5, "README", "site/README"),
]


@pytest.mark.parametrize(
    ("paths", "types", "ids"),
    [
        (("en/",), (), [1, 2]),
        (("*.md",), (), [1, 3]),
        (("handbook/zh/**",), (), [3]),
        (("/page.htm", "zh/"), (), [3, 4]),
        ((), ("txt",), [2]),
        ((), (".MD", "html"), [1, 3, 4]),
        (("en/",), ("markdown",), [1]),
    ],
)
def test_documents_that_pass(paths: tuple[str, ...], types: tuple[str, ...], ids: list[int]) -> None:
    assert Filters(paths, types).document_ids(DOCUMENTS) == ids


def test_nothing_passes() -> None:
    with pytest.raises(UsageError, match="--path fr/ --type pdf") as caught:
        Filters(("fr/",), ("pdf",)).document_ids(DOCUMENTS)
    assert "md (2)" in str(caught.value.hint)
    assert "without a suffix (1)" in str(caught.value.hint)


def test_no_filters() -> None:
    assert not Filters()
    assert Filters(types=("md",))
