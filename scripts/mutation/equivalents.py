"""Faults that change nothing that anybody could notice, each with the reason; the tool leaves them out.

The list is for what no test can tell, not for what no test tells yet.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from scripts.mutation.mutants import Mutant

LIST: Final = Path(__file__).with_name("equivalent.toml")


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of them: its module as a path, the function and the text of the mutant, and why it is none."""

    module: str
    function: str
    what: str
    reason: str


class _List(msgspec.Struct, forbid_unknown_fields=True):
    equivalent: list[Equivalent]


def read_equivalents(file: Path = LIST) -> list[Equivalent]:
    """The list."""
    return msgspec.convert(tomllib.loads(file.read_text()), _List).equivalent


def without_equivalents(
    module: str, mutants: Iterable[Mutant], equivalents: Iterable[Equivalent]
) -> tuple[list[Mutant], list[Equivalent]]:
    """The mutants of a module that are worth a try, and the entries for it that fit none any more."""
    named = {(one.function, one.what): one for one in equivalents if one.module == module}
    worth = [one for one in mutants if named.pop((one.function, one.what), None) is None]
    return worth, list(named.values())
