"""Text of an expression -> tokens, and tokens of literals -> values.

One regular expression without ambiguity: no input makes it backtrack more than a constant number of times per
character, so a hostile text (an unclosed string full of escapes) costs no more than a harmless one.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from ductor.definitions.expressions.budget import MAX_EXPRESSION_LENGTH
from ductor.definitions.expressions.cel_values import INT_MAX, INT_MIN, UINT_MAX, Uint, Value
from ductor.definitions.expressions.errors import ExpressionSyntaxError

TokenKind: TypeAlias = Literal["number", "text", "name", "quoted_name", "operator", "end"]

RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Words CEL keeps for itself: fields may be called so, variables may not."""
KEYWORDS = frozenset(("in", "true", "false", "null"))
MAX_EXCERPT = 20
"""Characters of the source shown in an error about it."""


class Token(NamedTuple):
    """A word of an expression; `offset` in characters."""

    kind: TokenKind
    text: str
    offset: int


_TOKEN = re.compile(
    r"""
    (?P<blank>[\t\n\f\r ]+|//[^\n]*)
  | (?P<text>
        [bB]?[rR]"{3}(?s:.*?)"{3} | [bB]?[rR]'{3}(?s:.*?)'{3} | [rR][bB]"{3}(?s:.*?)"{3} | [rR][bB]'{3}(?s:.*?)'{3}
      | (?:[bB]?[rR]|[rR][bB])"[^"\r\n]*" | (?:[bB]?[rR]|[rR][bB])'[^'\r\n]*'
      | [bB]?"{3}(?:[^\\]|\\(?s:.))*?"{3} | [bB]?'{3}(?:[^\\]|\\(?s:.))*?'{3}
      | [bB]?"(?:[^"\\\r\n]|\\.)*" | [bB]?'(?:[^'\\\r\n]|\\.)*'
    )
  | (?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uU]?(?![0-9a-zA-Z_.]|(?<=[uU])\.)
      | [0-9]+(?=\.[a-zA-Z_])
      | (?:[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?![0-9a-zA-Z_])
    )
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | `(?P<quoted_name>[a-zA-Z0-9_./\ -]+)`
  | (?P<operator>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)


def tokenize(source: str) -> Iterator[Token]:
    """The tokens of an expression, the last being of kind `end`.

    Raises:
        ExpressionSyntaxError: the text is too long, or something in it is no token.
    """
    if len(source) > MAX_EXPRESSION_LENGTH:
        shown = source[:MAX_EXCERPT] + "…"
        message = f"the expression has {len(source)} characters, more than {MAX_EXPRESSION_LENGTH}"
        raise ExpressionSyntaxError(shown, 0, message, kind="limit", hint="Do the work in a task.")
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise ExpressionSyntaxError(source, position, _unreadable(source, position))
        kind = match.lastgroup
        if kind != "blank":
            yield Token(kind, match[kind or 0], position)  # type: ignore[arg-type]  # the groups are the kinds
        position = match.end()
    yield Token("end", "", position)


def _unreadable(source: str, position: int) -> str:
    rest = source[position : position + MAX_EXCERPT]
    if rest.lstrip("rRbB")[:1] in ("'", '"'):
        return "the text that starts here is not closed"
    if rest[0].isspace():  # a blank for Python and none for CEL, as U+001C and U+00A0
        return f"{rest[0]!r} can't be read"
    return f"{rest.split()[0]!r} can't be read"


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPES |= {character: character for character in "\\\"'`?"}
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|X(?P<X>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<o>[0-3][0-7]{2})|(?P<c>.)|\Z)",
    re.DOTALL,
)


def literal_of_text(source: str, token: Token) -> str | bytes:
    """The value of a string or bytes literal."""
    quote = min(position for position in (token.text.find("'"), token.text.find('"')) if position >= 0)
    prefix = token.text[:quote].lower()
    width = 3 if token.text[quote : quote + 3] in ("'''", '"""') and len(token.text) >= quote + 6 else 1
    body = token.text[quote + width : -width]
    if width == 3:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    if "b" in prefix:
        return body.encode() if "r" in prefix else _unescape_bytes(source, token.offset, body)
    return body if "r" in prefix else _unescape_text(source, token.offset, body)


def _unescape_text(source: str, offset: int, body: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = _code_of(source, offset, match)
        if isinstance(code, str):
            return code
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ExpressionSyntaxError(source, offset, f"{match[0]} is no character")
        return chr(code)

    return _ESCAPE.sub(replaced, body) if "\\" in body else body


def _unescape_bytes(source: str, offset: int, body: str) -> bytes:
    result = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        result += body[position : match.start()].encode()
        code = _code_of(source, offset, match)
        if match["u"] or match["U"]:
            raise ExpressionSyntaxError(source, offset, f"{match[0]} is not valid in bytes")
        result += code.encode() if isinstance(code, str) else bytes((code,))
        position = match.end()
    return bytes(result + body[position:].encode())


def _code_of(source: str, offset: int, match: re.Match[str]) -> str | int:
    """The character of a simple escape, or the number of a numbered one."""
    digits = match["x"] or match["X"] or match["u"] or match["U"]
    if digits:
        return int(digits, 16)
    if match["o"]:
        return int(match["o"], 8)
    if match["c"] not in _ESCAPES:
        raise ExpressionSyntaxError(
            source, offset, f"the escape {match[0]} does not exist", hint="Write \\\\ for a backslash."
        )
    return _ESCAPES[match["c"]]


def literal_of_number(source: str, token: Token, *, negative: bool) -> Value:
    """The value of a number literal, with the minus sign before it."""
    text = token.text
    unsigned = text[-1] in "uU"
    digits = text[:-1] if unsigned else text
    hexadecimal = digits[:2] in ("0x", "0X")
    if not hexadecimal and not digits.isdigit():
        return -float(digits) if negative else float(digits)
    value = int(digits, 16 if hexadecimal else 10) * (-1 if negative else 1)
    if unsigned:
        if not 0 <= value <= UINT_MAX:
            raise ExpressionSyntaxError(source, token.offset, f"{value}u does not fit an unsigned 64-bit integer")
        return Uint(value)
    if not INT_MIN <= value <= INT_MAX:
        hint = "Write it as a double, with a decimal point."
        raise ExpressionSyntaxError(source, token.offset, f"{value} does not fit a 64-bit integer", hint=hint)
    return value


def end_of_embedded(text: str, start: int) -> int | None:
    """Where the `}` stands that closes an expression beginning at `start`, or None; braces inside balance.

    Raises:
        ExpressionSyntaxError: something on the way is no token; the source of the error is the whole text.
    """
    depth = 0
    position = start
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ExpressionSyntaxError(text, position, _unreadable(text, position))
        if match[0] == "}" and depth == 0:
            return position
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        position = match.end()
    return None
