"""A sheet to draw on: shapes and text as SVG, nothing about plans.

Keep true:
1. Every text and every attribute is escaped here, whoever calls.
2. Numbers are written with at most one decimal, so the same drawing has the same bytes everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from placet.safe_text import clean

_SANS = "DejaVu Sans, Verdana, Geneva, sans-serif"
_MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_STROKE = "#6e7781"
_CONFLICT = "#b35900"


def escape(text: str) -> str:
    """Text as it may stand in XML, between tags and in attributes."""
    return clean(text).translate(_ESCAPES)


def _n(number: float) -> str:
    text = f"{number:.1f}"
    return text[:-2] if text.endswith(".0") else text


class Canvas:
    """Shapes in the order in which they are drawn."""

    def __init__(self) -> None:
        self._body: list[str] = []
        self._tags: list[str] = []
        self.width = 0.0

    def reach(self, x: float) -> None:
        """Be at least so wide that `x` is on the sheet."""
        self.width = max(self.width, x)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int,
        ink: str,
        weight: str = "normal",
        anchor: str = "start",
        mono: bool = False,
    ) -> None:
        """One line of text; `y` is where letters stand."""
        bold = f' font-weight="{weight}"' if weight != "normal" else ""
        turned = f' text-anchor="{anchor}"' if anchor != "start" else ""
        family = f' font-family="{_MONO}"' if mono else ""
        self._body.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{size}" fill="{ink}"{bold}{turned}{family}>'
            f"{escape(words)}</text>"
        )

    def tag(self, x: float, y: float, words: str, *, anchor: str) -> None:
        """A small label on a line, above everything else, with a halo so that it reads on any ground."""
        self._tags.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="10.5" fill="{_CONFLICT}" text-anchor="{anchor}" '
            f'stroke="#ffffff" stroke-width="5" paint-order="stroke">{escape(words)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        ink: str,
        paper: str,
        title: str,
        dashed: bool = False,
    ) -> None:
        """A rounded rectangle; `title` shows when the pointer rests on it."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        hover = f"<title>{escape(title)}</title>" if title else ""
        radius = 7 if min(width, height) > 20 else 3
        self._body.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{radius}" '
            f'fill="{paper}" stroke="{ink}" stroke-width="1.4"{dash}>{hover}</rect>'
        )

    def curve(self, points: Sequence[tuple[float, float]], *, across: bool, dashed: bool, title: str) -> None:
        """An arrow through points given in pairs: bent between two pairs, straight within one."""
        x, y = points[0]
        path = [f"M{_n(x)} {_n(y)}"]
        for n in range(1, len(points)):
            (x0, y0), (x1, y1) = points[n - 1], points[n]
            if n % 2 == 0:
                path.append(f"L{_n(x1)} {_n(y1)}")
            elif across:
                middle = (x0 + x1) / 2
                path.append(f"C{_n(middle)} {_n(y0)} {_n(middle)} {_n(y1)} {_n(x1)} {_n(y1)}")
            else:
                middle = (y0 + y1) / 2
                path.append(f"C{_n(x0)} {_n(middle)} {_n(x1)} {_n(middle)} {_n(x1)} {_n(y1)}")
        hover = f"<title>{escape(title)}</title>" if title else ""
        ink, dash, head = (_CONFLICT, ' stroke-dasharray="5 4"', "c") if dashed else (_STROKE, "", "e")
        self._body.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{ink}" stroke-width="1.4"{dash} '
            f'marker-end="url(#{head})">{hover}</path>'
        )

    def finish(self, height: float, *, label: str) -> str:
        """The whole file."""
        width = max(480.0, self.width + 28)
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
            f'viewBox="0 0 {_n(width)} {_n(height)}" role="img" font-family="{_SANS}">',
            f"<title>{escape(label)}</title>",
            f"<defs>{_arrow('e', _STROKE)}{_arrow('c', _CONFLICT)}</defs>",
            f'<rect width="{_n(width)}" height="{_n(height)}" fill="#ffffff"/>',
        ]
        return "\n".join([*head, *self._body, *self._tags, "</svg>"]) + "\n"


def _arrow(name: str, ink: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0.5L8 4L0 7.5Z" fill="{ink}"/></marker>'
    )
