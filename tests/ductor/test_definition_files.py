"""Definitions out of files, and the handlers they need."""

import sys
from pathlib import Path

import pytest

import ductor
from ductor.definition_files import definition_files, read_definitions
from ductor.definitions.compile import compile_document, compile_text
from ductor.definitions.errors import DefinitionError
from ductor.errors import TasksNotLoadedError
from ductor.handlers import load_tasks, missing_handlers, needed_handlers
from tests.ductor.flows import ORDER

STEP = '{"ref": "a", "type": "task", "task": "do.a"}'


def codes_of(caught: pytest.ExceptionInfo[DefinitionError]) -> list[str]:
    return [problem.code for problem in caught.value.problems]


def test_a_folder_gives_its_definitions_and_leaves_scenarios_and_hidden_files_out(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("b.yaml", "sub/a.yml", "c.json", "d.scenario.yaml", "e.txt", ".git/f.yaml"):
        (tmp_path / name).write_text("")
    assert [path.relative_to(tmp_path).as_posix() for path in definition_files(tmp_path)] == [
        "b.yaml",
        "c.json",
        "sub/a.yml",
    ]


def test_sources_of_every_kind(tmp_path: Path):
    (tmp_path / "order.yaml").write_text(ORDER)
    document = {"name": "inline", "steps": [{"ref": "a", "type": "task", "task": "do.a"}]}
    compiled = compile_document({**document, "name": "compiled"})
    found = read_definitions(tmp_path, document, compiled, *read_definitions(tmp_path / "order.yaml"))
    assert [one.compiled.manifest.name for one in found] == ["order", "inline", "compiled", "order"]
    assert (found[0].file, found[0].text) == (str(tmp_path / "order.yaml"), ORDER)


def test_what_is_not_there_is_said_together(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DefinitionError) as caught:
        read_definitions(tmp_path / "empty", tmp_path / "nowhere.yaml")
    assert codes_of(caught) == ["no_definitions", "file_not_found"]


@pytest.mark.parametrize("text", [ORDER, "name: a\nsteps: []\n" + "# long\n" * 5_000, "name: a\0"])
def test_a_text_in_place_of_a_path_is_refused_and_told_what_to_do(text: str):
    with pytest.raises(DefinitionError) as caught:
        read_definitions(text)
    assert len(caught.value.problems) == 1
    assert len(str(caught.value)) < 400
    assert ("write the definition to a file" in str(caught.value)) == ("\n" in text)


def test_a_file_that_is_no_text(tmp_path: Path):
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(DefinitionError, match="byte 9 is not UTF-8") as caught:
        read_definitions(tmp_path)
    assert codes_of(caught) == ["not_utf8"]


def test_one_name_with_two_meanings_is_a_clash_unless_versions_tell_them_apart(tmp_path: Path):
    (tmp_path / "a.json").write_text(f'{{"name": "x", "steps": [{STEP}]}}')
    (tmp_path / "b.json").write_text(f'{{"name": "x", "steps": [{STEP.replace("do.a", "do.b")}]}}')
    with pytest.raises(DefinitionError, match=r"defined differently in .*a\.json") as caught:
        read_definitions(tmp_path)
    assert codes_of(caught) == ["duplicate_definition"]
    (tmp_path / "b.json").write_text(f'{{"name": "x", "version": "2", "steps": [{STEP}]}}')
    assert len(read_definitions(tmp_path)) == 2


def test_needed_handlers_are_those_of_steps_defers_and_allow_lists():
    text = """
        {"name": "x", "steps": [
            {"ref": "a", "type": "task", "task": "do.a", "next": "b"},
            {"ref": "b", "type": "task", "task": "do.${trigger.what}", "tasks": ["do.b", "do.c"]}],
         "defer": [{"ref": "z", "type": "task", "task": "do.z"}]}
    """
    (compiled,) = compile_text(text, text_format="json")
    assert needed_handlers(compiled.manifest) == {"do.a", "do.b", "do.c", "do.z"}
    assert missing_handlers([compiled.manifest], ["do.a", "do.b"]) == {"do.c": ("x",), "do.z": ("x",)}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    source = """
import ductor

@ductor.task("do.a")
def first(): ...

@ductor.task("do.b")
def second(): ...

both = [first, second]
registry = ductor.TaskRegistry(both)
nothing = 5
"""
    (tmp_path / "handlers_for_loading.py").write_text(source)
    (tmp_path / "handlers_that_raise.py").write_text("raise RuntimeError('broken on purpose')")
    yield "handlers_for_loading"
    sys.modules.pop("handlers_for_loading", None)


def test_tasks_come_out_of_modules_lists_and_registries(module: str):
    def names(source: str) -> list[str]:
        return sorted(task.name for task in load_tasks([source]))

    assert names(module) == ["do.a", "do.b"]
    assert names(f"{module}:first") == ["do.a"]
    assert names(f"{module}:both") == ["do.a", "do.b"]
    assert names(f"{module}:registry") == ["do.a", "do.b"]
    assert isinstance(load_tasks([f"{module}:first"])[0], ductor.Task)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("no_such_module_at_all", "ModuleNotFoundError"),
        ("handlers_that_raise", "RuntimeError: broken on purpose"),
        ("handlers_for_loading:third", "no attribute 'third'"),
        ("handlers_for_loading:nothing", "no function decorated"),
    ],
)
def test_tasks_that_cannot_be_loaded(module: str, source: str, reason: str):
    with pytest.raises(TasksNotLoadedError, match=reason):
        load_tasks([source])
