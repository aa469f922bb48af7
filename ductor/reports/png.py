"""Pictures as PNG, for where SVG is not shown. Needs the extra `reports`."""

import re
from functools import cache
from typing import Final

from ductor.reports.errors import MissingExtraError, MissingFontError

SCALE: Final = 2.0
"""Pixels for each unit of the SVG, so that text is sharp on fine screens."""
PIXELS_MAX: Final = 16_000
"""Pixels of a side at most; a larger picture is drawn on a smaller scale."""

FAMILIES: Final = (
    "DejaVu Sans",
    "Liberation Sans",
    "Noto Sans",
    "Arial",
    "Helvetica",
    "Ubuntu",
    "Cantarell",
    "FreeSans",
)
"""Fonts of the systems that ductor runs on, one of which is needed; one that a picture names goes before them."""
_SIZE: Final = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)"')


def png_of(svg: str) -> bytes:
    """Draw an SVG picture that says its size, as those of this package do.

    Raises:
        MissingExtraError: the extra `reports` is not installed.
        MissingFontError: there is no font.
    """
    try:
        import resvg_py  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("PNG", "resvg-py", "reports") from error
    family = _sans_serif()
    if family is None:
        raise MissingFontError
    size = _SIZE.search(svg)
    zoom = SCALE if size is None else min(SCALE, PIXELS_MAX / max(int(size[1]), int(size[2]), 1))
    return resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, sans_serif_family=family)


@cache
def _sans_serif() -> str | None:
    """A font that is here. Text in a font that is not is left out in silence, so a letter is drawn in each to see."""
    import resvg_py  # noqa: PLC0415 - an extra

    frame = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
    nothing = resvg_py.svg_to_bytes(svg_string=frame.format(""))
    for family in FAMILIES:
        letter = f'<text x="2" y="16" font-size="16" font-family="{family}">M</text>'
        if resvg_py.svg_to_bytes(svg_string=frame.format(letter)) != nothing:
            return family
    return None
