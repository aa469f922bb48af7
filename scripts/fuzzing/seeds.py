"""Good input for each target to begin with, all of which the target answers, and the words that it is made of."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from ductor.definitions.documents.yaml_reader import read_yaml
from ductor.definitions.limits import DEFAULT_LIMITS

CHECKOUT: Final = Path(__file__).resolve().parents[2]
CORPUS: Final = CHECKOUT / "tests" / "corpus"

MAX_WORDS: Final = 2_000
_WORD: Final = re.compile(rb"[A-Za-z_@][A-Za-z0-9_@.]{2,40}")


class _Row(msgspec.Struct):
    events: msgspec.Raw


def seeds(name: str) -> Iterator[bytes]:
    """Good input for a target."""
    if name == "definition":
        yield from (path.read_bytes() for path in _definitions())
    elif name == "json_definition":
        for path in _definitions():
            for tree in read_yaml(path.read_text(), DEFAULT_LIMITS, str(path), []):
                yield json.dumps(tree.plain(), ensure_ascii=False).encode()
    elif name in ("expression", "template"):
        page = (CHECKOUT / "docs" / "reference" / "expressions.md").read_text()
        lines = [line.split(" => ")[0] for line in page.splitlines() if " => " in line]
        yield from (f"${{{line}}}".encode() if name == "template" else line.encode() for line in lines)
    elif name == "state":
        yield from (path.read_bytes() for path in sorted(CORPUS.glob("*.state.json")))
    else:
        for path in sorted(CORPUS.glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                yield bytes(msgspec.json.decode(line, type=_Row).events)


def words(texts: Iterable[bytes]) -> list[bytes]:
    """The words of some texts, for the fuzzer to put together anew; `MAX_WORDS` at most."""
    found = {word: None for text in texts for word in _WORD.findall(text)}
    return list(found)[:MAX_WORDS]


def _definitions() -> list[Path]:
    examples = sorted((CHECKOUT / "examples").rglob("*.yaml"))
    return [
        *(path for path in examples if not path.name.endswith(".scenario.yaml")),
        CHECKOUT / "tests" / "definitions" / "whole_language.yaml",
    ]
