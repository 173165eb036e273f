"""What all pictures of a bench have in common: colours, fonts, and how they reach a file."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragla.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
OURS_COLOUR = "#d55e00"
# the palette of M. Okabe and K. Ito, which the colour-blind can tell apart; its vermilion is ours
PALETTE = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#8c6d00", "#000000", "#7f7f7f", "#5b3a8c")
MARKERS = "os^Dvph*"
CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "Droid Sans Fallback", "Microsoft YaHei", "SimHei", "PingFang SC", "Heiti SC",
    "Hiragino Sans GB", "Noto Sans CJK JP", "Arial Unicode MS",
)  # fmt: skip
NO_GLYPH = "no font here has some of the characters: install one (fonts-noto-cjk), or draw an .svg"


def check_plot(path: Path) -> None:
    """Refuse what could not be drawn or written, before anything is computed. Raises UsageError."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: pictures are PNG or SVG", "--plot FILE.png or --plot FILE.svg")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}", f"mkdir -p {path.parent}")
    if path.is_dir():
        raise UsageError(f"{path}: cannot be written: Is a directory", "--plot FILE.png")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: cannot be written: Permission denied", "--plot FILE.png")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib, which is not installed", "pip install 'ragla[plot]'")


@contextmanager
def style() -> Iterator[None]:
    """While this holds, figures are drawn with fonts that know Chinese, if there are any, and $ is a $."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its font cache
    from matplotlib import rc_context
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    family = ["DejaVu Sans", *(name for name in CJK_FONTS if name in installed)]
    # text stays text, ids the same each time
    held: Any = {
        "font.family": family, "svg.fonttype": "none", "svg.hashsalt": "ragla", "text.parse_math": False,
    }  # fmt: skip
    with warnings.catch_warnings(), rc_context(held):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: float, height: float) -> tuple[Figure, Any]:
    """A figure of so many inches and its canvas, without any state outside them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    return figure, FigureCanvasAgg(figure)


def save(figure: Figure, path: Path) -> str | None:
    """Write a figure, PNG or SVG by its name; what its reader should know. Raises UsageError."""
    undated = {"Date": None} if path.suffix.lower() == ".svg" else None
    try:
        with style(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            figure.savefig(path, metadata=undated)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}", "--plot FILE.png") from error
    lacking = any(str(each.message).startswith("Glyph") for each in caught)
    # an SVG's text is drawn with the fonts of whoever looks at it
    return NO_GLYPH if lacking and undated is None else None
