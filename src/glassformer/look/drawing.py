"""What every figure shares: our colours, a font for Chinese, cells with numbers in them."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontManager

INK, ACCENT = "#23282e", "#0b7a75"
COLOURS = (ACCENT, "#b4540a", "#5b5fc7", "#8a6d00", "#7a3b69")
CJK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB"),
    *("Microsoft YaHei", "SimHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Arial Unicode MS"),
)


@contextmanager
def drawing(labels: Sequence[str] = ()) -> Iterator[Callable[..., Figure]]:
    """A maker of figures in our colours, with a font for Chinese, Japanese and Korean if there is one."""
    try:
        import matplotlib
        from cycler import cycler
        from matplotlib import font_manager
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing figures", "matplotlib", "plots") from None
    fonts = _known_fonts(font_manager.fontManager)
    if not fonts and any(_is_cjk(text) for text in labels):
        _look_for_fonts(font_manager)
        fonts = _known_fonts(font_manager.fontManager)
        if not fonts:
            warnings.warn(
                "no font for Chinese, Japanese or Korean is installed, so some labels will be empty boxes; "
                "on Debian and Ubuntu: apt install fonts-noto-cjk",
                stacklevel=3,
            )
    style = {
        "font.family": ["DejaVu Sans", *fonts],
        "font.size": 10,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.edgecolor": "#b8bcc2",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with matplotlib.rc_context(style):
        yield lambda width, height: Figure(figsize=(width, height), layout="constrained")


def _known_fonts(manager: FontManager) -> list[str]:
    have = {font.name for font in manager.ttflist}
    return [name for name in CJK_FONTS if name in have][:1]


def _look_for_fonts(font_manager: ModuleType) -> None:
    """matplotlib remembers the fonts of the day it first ran; those installed since then count too."""
    manager = font_manager.fontManager
    known = {font.fname for font in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            with suppress(OSError, RuntimeError):  # pictures of characters, or a damaged file
                manager.addfont(path)


def _is_cjk(text: str) -> bool:
    return any(unicodedata.east_asian_width(character) in "WF" for character in text)


def cells(axes: Axes, values: Tensor, title: str, across: str, down: str) -> None:
    axes.imshow(values.numpy(), cmap="Greens", vmin=0, vmax=1.4)
    axes.set(xlabel=across, ylabel=down)
    axes.set_title(title, fontsize=10)
    lines_between(axes, values.shape)


def numbers(axes: Axes, values: Tensor, title: str, colours: str, most: float) -> None:
    shown = values.masked_fill(values.isinf(), float("nan"))  # left empty
    axes.set_facecolor("#eceae4")
    axes.imshow(shown.numpy(), cmap=colours, vmin=-most if colours == "RdBu_r" else 0, vmax=most, alpha=0.75)
    for row, line in enumerate(values.tolist()):
        for column, value in enumerate(line):
            text = "−∞" if value == float("-inf") else f"{value:.2f}"
            dark = value != float("-inf") and abs(value) > 0.7 * most
            axes.text(column, row, text, ha="center", va="center", color="white" if dark else INK)
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="key", ylabel="query")
    lines_between(axes, values.shape)


def lines_between(axes: Axes, shape: Sequence[int]) -> None:
    """White lines between the cells, and a tick for each."""
    axes.set_xticks(range(shape[1]))
    axes.set_yticks(range(shape[0]))
    for place in range(1, shape[1]):
        axes.axvline(place - 0.5, color="white", linewidth=1.2)
    for place in range(1, shape[0]):
        axes.axhline(place - 0.5, color="white", linewidth=1.2)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def label(piece: str) -> str:
    """A piece without the mark of a word's beginning."""
    return piece.replace("▁", " ").strip() or "␣"
