"""Manifests: their order, and hashes that nothing but meaning changes."""

import json
import random
from pathlib import Path
from typing import Literal, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.compile import compile_definition, compile_document, compile_text
from ductor.definitions.documents.yaml_reader import read_yaml
from ductor.definitions.errors import DefinitionError
from ductor.definitions.limits import DEFAULT_LIMITS
from ductor.definitions.manifest import ManifestError, canonical_json, decode_manifest, encode_manifest, manifest_hash
from ductor.definitions.model import Definition
from ductor.definitions.steps import STEP_TYPES, ConditionalStep, TaskStep
from tests.definitions.marked import compile_one

EXAMPLES = sorted(Path(__file__).parents[2].joinpath("examples").glob("*.yaml"))
WHOLE_LANGUAGE = Path(__file__).parent / "whole_language.yaml"

GOLDEN_HASHES = {
    "greeting": ["2bd0167f164fd2519f2bb7ae692888f98cbe1d5b67dc61752115197394924937"],
    "order": ["6e4721fc6a9585a137aa28c54889cccc16a52806e661b0bfbc7ce2e6f4f1f968"],
    "loan_decision": ["1767e9e51e4c28cd4eb1cf23394af327b057b4b783f7a83655c913667092f332"],
    "second_opinion": ["e168e829e7625f528933e0240dfc08a9901442103a9241afe3edc9a81ee8ec5e"],
    "nightly_export": ["97a0c5d338efc0f4ca252f31f790e0f80679a0039dea3d34630d12512b1519f1"],
    "whole_language": ["981a7a5643e4c002781ce14e28e27435cc9f36fa443b270c34922f46de498116"],
}


def documents_of(text):
    return [root.plain() for root in read_yaml(text, DEFAULT_LIMITS, "", [])]


def shuffled(value, order):
    """The same value with the keys of every map in another order."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    return value


def texts():
    return [path.read_text() for path in [*EXAMPLES, WHOLE_LANGUAGE] if not path.name.endswith(".scenario.yaml")]


@pytest.mark.parametrize("name", GOLDEN_HASHES)
def test_golden_hashes(name):
    """A change here is a change of what every published definition is called; it needs a new language version."""
    path = WHOLE_LANGUAGE if name == "whole_language" else EXAMPLES[0].with_name(f"{name}.yaml")
    assert [compiled.manifest_hash for compiled in compile_text(path.read_text())] == GOLDEN_HASHES[name]


@given(st.sampled_from(texts()), st.randoms(use_true_random=False))
def test_key_order_style_and_syntax_never_change_the_hash(text, order):
    expected = [compiled.manifest_hash for compiled in compile_text(text)]
    documents = [shuffled(document, order) for document in documents_of(text)]
    flow = order.random() < 0.5
    as_yaml = "# a comment\n" + yaml.safe_dump_all(
        documents, default_flow_style=flow, width=order.choice([20, 80, 1000]), sort_keys=False, allow_unicode=flow
    )
    assert [compiled.manifest_hash for compiled in compile_text(as_yaml)] == expected
    assert [compile_text(json.dumps(one), file="x.json")[0].manifest_hash for one in documents] == expected
    assert [compile_document(one).manifest_hash for one in documents] == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("next: b", "next: {success: [b]}"),
        ("next: [b, c]", "next: {success: [c, b]}"),
        ("timeout: 90s", "timeout: {attempt: 1m30s}"),
        ("timeout: 90s", "timeout: {attempt: PT1M30S}"),
        ("retry: 3", "retry: [{max_attempts: 3, initial: 1s, factor: 2, max: 60s, jitter: 0.2}]"),
        ("retry: {factor: 2}", "retry: {factor: 2.0}"),
        ("input: {n: 2}", "input: {n: 2.0}"),
        ("queue: default", "join: all"),
        ("on_error: fail", "effects: {}"),
        ("tags: x", "tags: [x]"),
        ("run_if: 'true'", "run_if: true"),
    ],
)
def test_sugar_and_defaults_never_change_the_hash(one, other):
    def hash_of(fields):
        rest = "{ref: b, type: task, task: t}, {ref: c, type: task, task: t}"
        return compile_one(f"name: a\nsteps: [{{ref: a, type: task, task: t, {fields}}}, {rest}]").manifest_hash

    assert hash_of(one) == hash_of(other)


@pytest.mark.parametrize(
    "fields", ["queue: slow", "input: {n: 3}", "retry: 4", "next: {done: b}", "run_if: 'false'", "name: x", "join: any"]
)
def test_meaning_changes_the_hash(fields):
    rest = "{ref: b, type: task, task: t}"
    plain = compile_one(f"name: a\nsteps: [{{ref: a, type: task, task: t}}, {rest}]")
    other = compile_one(f"name: a\nsteps: [{{ref: a, type: task, task: t, {fields}}}, {rest}]")
    assert plain.manifest_hash != other.manifest_hash


def test_numbers_are_those_of_json_whichever_way_a_manifest_came():
    compiled = compile_one("name: a\nconfig: {x: 2.0, y: 0.5, z: 1e3}\nsteps: [{ref: a, type: task, task: t}]")
    assert compiled.manifest.config == {"x": 2, "y": 0.5, "z": 1000}
    assert type(compiled.manifest.config["x"]) is int


@pytest.mark.parametrize("text", texts())
def test_a_manifest_read_from_storage_is_the_one_compiled(text):
    for compiled in compile_text(text):
        read = decode_manifest(compiled.canonical)
        assert read == compiled.manifest
        assert encode_manifest(read) == compiled.canonical == canonical_json(json.loads(compiled.canonical))
        assert manifest_hash(compiled.canonical) == compiled.manifest_hash
        assert compile_definition(read) == read


def test_the_whole_language_uses_every_step_type():
    types = {
        step.type_name for compiled in compile_text(WHOLE_LANGUAGE.read_text()) for step in compiled.manifest.steps
    }
    assert types == set(STEP_TYPES)


def test_steps_are_in_kahn_order_and_edges_sorted():
    manifest = compile_one(
        """
name: a
steps:
  - {ref: z, type: task, task: t}
  - {ref: y, type: task, task: t, next: [x, w]}
  - {ref: x, type: task, task: t, next: z}
  - {ref: w, type: task, task: t, next: {success: z, done: x}}
"""
    ).manifest
    assert [step.ref for step in manifest.steps] == ["y", "w", "x", "z"]
    assert [(edge.source, edge.outcome, edge.to) for edge in manifest.edges] == [
        ("w", "done", "x"),
        ("w", "success", "z"),
        ("x", "success", "z"),
        ("y", "success", "w"),
        ("y", "success", "x"),
    ]
    assert manifest.entrypoints == ("y",)


def test_a_definition_made_by_hand_is_checked_too():
    step = TaskStep(ref="a", task="t")
    with pytest.raises(DefinitionError, match="the ref `a` is taken"):
        compile_definition(Definition(name="x", steps=(step, step)))
    with pytest.raises(DefinitionError, match="Invalid enum value"):
        compile_definition(
            Definition(name="x", steps=(TaskStep(ref="a", task="t", on_error=cast("Literal['fail']", "perhaps")),))
        )
    with pytest.raises(DefinitionError, match="line 1 column"):
        compile_definition(Definition(name="x", steps=(ConditionalStep(ref="a", when="1 +"),)))


@pytest.mark.parametrize("value", [float("nan"), 2**60, "\ud800", {1: 2}])
def test_values_without_canonical_json_are_refused(value):
    with pytest.raises(DefinitionError):
        compile_definition(Definition(name="x", config={"k": value}, steps=(TaskStep(ref="a", task="t"),)))


def test_places_are_found_by_ref():
    text = """\
name: a
defaults: {task: {retry: {max_attempts: 3}}}
output: {x: "${steps.b.output}"}
steps:
  - {ref: b, type: task, task: t, input: {"odd.key": [1, {deep: 2}], "it's": 3}}
  - ref: c
    type: conditional
    when: steps.b.output
    next: {"true": {choice: [{when: output, to: d}, {to: d}]}}
  - {ref: d, type: rule, rules: {when: "true", then: 1}}
"""
    places = compile_one(text).places

    lines = text.splitlines()

    def at(key):
        place = places.get(key)
        assert place is not None
        return (place.path, place.line, place.column)

    assert at("output.x") == ("output.x", 3, lines[2].index('"$') + 1)
    assert at("steps.b.input.odd.key[1].deep") == ("steps[0].input.odd.key[1].deep", 5, lines[4].index("2}") + 1)
    assert at('steps.b.input["it\'s"]') == ('steps[0].input["it\'s"]', 5, lines[4].index("3}") + 1)
    assert at("steps.b.retry[0].max_attempts") == ("defaults.task.retry.max_attempts", 2, lines[1].index("3}") + 1)
    assert at("steps.c.when") == ("steps[1].when", 8, 11)
    assert at("steps.c.next.true[0][0]") == ("steps[1].next.true.choice[0]", 9, lines[8].index("output, to") + 1)
    assert at("steps.d.rules[0].then") == ("steps[2].rules.then", 10, lines[9].index("1}") + 1)
    assert at("steps.b.nothing") == ("steps[0]", 5, 5)
    assert places.get("steps.nowhere.input") is None


def test_a_manifest_of_another_version_is_not_read():
    with pytest.raises(ManifestError, match="from_the_future"):
        decode_manifest(b'{"name": "a", "steps": [], "entrypoints": [], "from_the_future": 1}')
    with pytest.raises(ManifestError, match="truncated"):
        decode_manifest(b'{"name":')


def test_the_order_of_shuffling_is_not_the_document_order():
    """The property above would say nothing if its shuffle gave back what it got."""
    keys = {str(number): number for number in range(9)}
    assert list(shuffled(keys, random.Random(1))) != list(keys)
