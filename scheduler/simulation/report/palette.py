"""Colours of figures and page, in a light and a dark variant, and matplotlib's settings.

The series' colours are Okabe and Ito's, safe for all common kinds of colour blindness; figures also
distinguish series by line style or position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Name -> (light, dark). Figures are drawn in the light colours; the page replaces them by their names.
COLOURS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14171c"),
    "ink": ("#1b1f24", "#e4e7ec"),
    "quiet": ("#5b6470", "#9aa4b2"),
    "rule": ("#d9dde3", "#343a44"),
    "series-1": ("#0072b2", "#56a9e0"),
    "series-2": ("#d55e00", "#f08a4b"),
    "series-3": ("#009e73", "#3cc79c"),
    "series-4": ("#cc79a7", "#e09cc4"),
    "series-5": ("#e69f00", "#f0bb4a"),
    "series-6": ("#56b4e9", "#9ad4f5"),
    "series-7": ("#7a5c3e", "#c0a080"),
    "other": ("#a4abb5", "#6b7480"),
}
INK, QUIET, RULE, PAPER, OTHER = (COLOURS[name][0] for name in ("ink", "quiet", "rule", "paper", "other"))
SERIES = tuple(light for name, (light, _) in COLOURS.items() if name.startswith("series-"))
LINE_STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (7, 2)))


def series_colour(index: int) -> str:
    """Return the colour of the index-th policy, from 0; after the last colour it starts again."""
    return SERIES[index % len(SERIES)]


def line_style(index: int) -> Any:
    """Return the line style of the index-th policy; it changes when the colours start again."""
    return LINE_STYLES[(index + index // len(SERIES)) % len(LINE_STYLES)]


SETTINGS: Mapping[Any, Any] = {
    "font.family": "sans-serif",
    # matplotlib ships with this font, so every machine measures and draws the same text.
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.0,
    # A name with two dollar signs is a name, not a formula.
    "text.parse_math": False,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.5,
    "hatch.color": PAPER,
    "patch.linewidth": 0.0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    # Text becomes outlines: a paper shows it without the font, and equal input gives equal bytes.
    "svg.fonttype": "path",
    "svg.hashsalt": "allotment",
    "path.simplify": False,
}
