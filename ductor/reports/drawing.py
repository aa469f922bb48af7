"""What all pictures of reports are drawn with: one look, self-contained SVG without scripts, fonts or other files."""

from collections.abc import Sequence
from html import escape
from typing import Final

from ductor.graph.svg import STATUS_COLOURS

MARGIN: Final = 28.0
HEADER_HEIGHT: Final = 66.0
LEGEND_HEIGHT: Final = 30.0
FOOTER_HEIGHT: Final = 26.0
LABEL_CHARS: Final = 44
"""Characters of a label at most; the rest is in its tooltip."""
CHAR_WIDTH: Final = 0.6
"""Of a letter, by its height; generous, as nobody knows which font there will be."""

GRID: Final = "#e2e8f0"
MUTED: Final = "#94a3b8"
ACCENT: Final = "#2f6feb"
STYLE: Final = """
text { font-family: Inter, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; fill: #1e293b }
.title { font-size: 19px; font-weight: 600 }
.aside { font-size: 12px; fill: #64748b }
.label { font-size: 12px }
.strong { font-size: 12.5px; font-weight: 600 }
.tick { font-size: 11px; fill: #64748b }
.right { text-anchor: end }
.middle { text-anchor: middle }
"""


def status_colour(status: str) -> str:
    """The strong colour of a status of a run or a step."""
    return STATUS_COLOURS.get(status, ("", MUTED, ""))[1]


def text_width(text: str, size: float) -> float:
    """How wide a text will be at most, as far as that can be known."""
    return len(text) * size * CHAR_WIDTH


def cut(text: str, limit: int = LABEL_CHARS) -> str:
    """A text on one line, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class Drawing:
    """A picture that grows."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def text(self, x: float, y: float, style: str, text: str, *, colour: str = "") -> None:
        """Text whose baseline begins at (x, y); `style` names classes of `STYLE`."""
        fill = f' style="fill:{colour}"' if colour else ""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{style}"{fill}>{escape(text)}</text>')

    def bar(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        tooltip: str = "",
        opacity: float = 1.0,
        radius: float = 2.0,
    ) -> None:
        """A filled rectangle."""
        faded = f' opacity="{opacity:g}"' if opacity < 1 else ""
        title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"{faded}'
        rounded = f' rx="{min(radius, width / 2):g}"' if radius else ""
        self._parts.append(f"{shape}{rounded}>{title}</rect>" if title else f"{shape}{rounded}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1.0) -> None:
        """A straight line."""
        self._parts.append(
            f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width:g}" fill="none"/>'
        )

    def dot(self, x: float, y: float, radius: float, fill: str, *, tooltip: str = "") -> None:
        """A filled circle."""
        title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="#ffffff">{title}</circle>'
        )

    def header(self, title: str, aside: str) -> None:
        """What the picture shows, at its top."""
        self.text(MARGIN, 36, "title", title)
        self.text(MARGIN, 55, "aside", aside)

    def legend(self, y: float, entries: Sequence[tuple[str, str]]) -> None:
        """What colours mean, side by side: (colour, meaning)."""
        x = MARGIN
        for colour, meaning in entries:
            self.bar(x, y - 9, 11, 11, colour)
            self.text(x + 16, y, "aside", meaning)
            x += 16 + text_width(meaning, 12) + 18

    def render(self, width: float, height: float, title: str) -> str:
        """The text of the file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><title>{escape(title)}</title><style>{STYLE}</style>'
            f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(self._parts)}</svg>\n'
        )


def legend_width(entries: Sequence[tuple[str, str]]) -> float:
    """How much room a legend takes, margins included."""
    return 2 * MARGIN + sum(34 + text_width(meaning, 12) for _, meaning in entries)
