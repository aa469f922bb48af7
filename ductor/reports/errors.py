"""Errors of reports."""

from ductor.definitions.errors import DuctorError


class MissingExtraError(DuctorError):
    """What was asked for needs a library that is not installed.

    Attributes:
        purpose: what was asked for.
        library: which library.
        extra: the extra of the distribution that brings it.
    """

    code = "missing_extra"

    def __init__(self, purpose: str, library: str, extra: str) -> None:
        self.purpose, self.library, self.extra = purpose, library, extra
        super().__init__(
            f"{purpose} needs {library}, which is not installed: `pip install 'ductor-engine[{extra}]'` brings it"
        )


class MissingFontError(DuctorError):
    """A picture would have no text, as this machine has none of the usual fonts."""

    code = "missing_font"

    def __init__(self) -> None:
        super().__init__(
            "a PNG picture needs a font, and this machine has none of the usual ones: install one (as the package"
            " `fonts-dejavu-core` of Debian), or write SVG, which is drawn with the fonts of whoever looks at it"
        )


class EmptyPictureError(DuctorError):
    """There is nothing to draw.

    Attributes:
        picture: which picture.
        reason: what there is none of.
    """

    code = "empty_picture"

    def __init__(self, picture: str, reason: str) -> None:
        self.picture, self.reason = picture, reason
        super().__init__(f"there is nothing to draw in a picture of {picture}: {reason}")


class ReportFileError(DuctorError):
    """A file of a report can't be written.

    Attributes:
        path: which file.
        reason: what the system says.
    """

    code = "report_file"

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"can't write {path}: {reason}")
