"""The reference of the face names everything there is: commands and options, public names, error codes."""

import importlib
import re
from pathlib import Path

import pytest

import ductor
import ductor.testing
from ductor.cli.main import COMMANDS, REPORTS, make_app
from ductor.definitions.errors import DuctorError

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("definitions", "journal", "actors", "projections", "ductor")
REFERENCE = CHECKOUT / "docs" / "reference"


@pytest.mark.parametrize("command", [*COMMANDS, "db migrate", *(f"report {name}" for name in REPORTS)])
def test_every_command_and_option_is_on_the_page(command: str):
    page = (REFERENCE / "cli.md").read_text()
    assert f"| `{command}" in page
    app = make_app()
    for word in command.split():
        app = app[word]
    arguments = app.assemble_argument_collection()
    options = {name for argument in arguments for name in argument.names if name.startswith("--")}
    assert {"--tenant", "--output"} & options
    assert not {option for option in options if option not in page}


def test_every_public_name_is_on_the_page():
    page = (REFERENCE / "python-api.md").read_text()
    named = set(re.findall(r"\w+", page))
    assert not (set(ductor.__all__) | set(ductor.testing.__all__)) - named


def test_every_error_is_on_the_page_with_its_code():
    for folder in FOLDERS:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            parts = path.relative_to(CHECKOUT).with_suffix("").parts
            if not {"__main__", "watcher", "pytest_plugin"} & set(parts):
                name = ".".join(parts if parts[0] == "ductor" else ("ductor", *parts)).removesuffix(".__init__")
                importlib.import_module(name)
    page = (REFERENCE / "errors.md").read_text()
    kinds = {kind for kind in _below(DuctorError) if kind.__module__.startswith("ductor.")}
    assert len(kinds) > 40
    assert not {kind.code for kind in kinds if f"`{kind.code}`" not in page}


def _below(kind: type[DuctorError]) -> set[type[DuctorError]]:
    return {deeper for one in kind.__subclasses__() for deeper in (one, *_below(one))}
