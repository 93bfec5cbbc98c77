"""Render a drawing to files for a paper and to text for the page. Only this module runs matplotlib."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from scheduler.simulation.report.palette import COLOURS, PAPER, SETTINGS

#: The width in inches of a figure that takes the whole width of a page; other figures take about half.
WIDE = 7.6
PNG_DOTS_PER_INCH = 300
# None leaves an entry out: dates and versions would make equal figures differ.
_SVG_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_NAMES = {light: f"var(--{name})" for name, (light, _) in COLOURS.items()}
_COLOUR = re.compile("|".join(_NAMES))
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(?:xlink:)?href="#([^"]+)"')
# Coordinates are in points, and a hundredth is finer than any screen.
_LONG_DECIMAL = re.compile(r"-?\d+\.\d{3,}")
_PATH = re.compile(r'\bd="[^"]*"')
_URL = re.compile(r"url\(#([^)]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure not yet drawn: `draw` fills an empty matplotlib figure of this size in inches."""

    #: The name of its files, without suffix; unique in a report.
    name: str
    title: str
    #: What it shows, how, and what it leaves out.
    caption: str
    draw: Callable[[Figure], None]
    width: float = 4.4
    height: float = 2.7
    #: Whether it takes the page's whole width.
    wide: bool = False


def svg_file(drawing: Drawing) -> bytes:
    """Return the drawing as a vector file with outlined text, without a background."""
    return _save(drawing, "svg", {}, metadata=_SVG_METADATA)


def png_file(drawing: Drawing) -> bytes:
    """Return the drawing at 300 dots per inch on white."""
    return _save(drawing, "png", {}, dpi=PNG_DOTS_PER_INCH, facecolor=PAPER, metadata={"Software": None})


def page_svg(drawing: Drawing) -> str:
    """Return it as an <svg> element: text stays text, colours are the page's variables, ids are unique."""
    text = _save(drawing, "svg", {"svg.fonttype": "none"}, metadata=_SVG_METADATA).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, count=1, flags=re.DOTALL)
    head, body = text.split(">", 1)
    view = re.search(r'viewBox="([^"]+)"', head)
    assert view is not None
    prefix = f"{drawing.name}-"
    body = _ID.sub(rf'id="{prefix}\1"', body)
    body = _REFERENCE.sub(rf'href="#{prefix}\1"', body)
    body = _URL.sub(rf"url(#{prefix}\1)", body)
    body = _PATH.sub(lambda path: _LONG_DECIMAL.sub(_shorter, path.group()), body)
    body = _COLOUR.sub(lambda match: _NAMES[match.group()], body)
    return (
        f'<svg viewBox="{view.group(1)}" role="img" aria-label="{escape(drawing.title)}"'
        f' preserveAspectRatio="xMidYMid meet">{body.rstrip()}'
    )


def add_legend(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Put a legend above everything, where it covers nothing; a long one makes the figure higher."""
    # About 15 letters fit an inch, and the sample of a line needs room, too.
    columns = max(1, min(len(names), int(15 * figure.get_figwidth()) // (max(map(len, names)) + 6)))
    rows = -(-len(names) // columns)
    if rows > 2:
        figure.set_figheight(figure.get_figheight() + 0.16 * (rows - 2))
    figure.legend(handles, names, loc="outside upper left", ncols=columns)


def _shorter(decimal: re.Match[str]) -> str:
    return f"{float(decimal.group()):.2f}".rstrip("0").rstrip(".")


def _save(drawing: Drawing, kind: str, settings: dict[Any, Any], **options: Any) -> bytes:
    with matplotlib.rc_context(), warnings.catch_warnings():
        # If the font lacks the script of a name, the page shows the name, and the files show boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # Ignore the user's settings, so that equal input gives equal bytes on every machine.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**SETTINGS, **settings})
        figure = Figure(figsize=(drawing.width, drawing.height), layout="constrained")
        FigureCanvasAgg(figure)
        drawing.draw(figure)
        file = io.BytesIO()
        figure.savefig(file, format=kind, **options)
    return file.getvalue()
