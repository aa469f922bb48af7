"""The runtime form: what a tick finds."""

import pytest

from ductor.definitions.errors import Place
from ductor.definitions.expressions import ExpressionError, ExpressionSyntaxError
from ductor.definitions.manifest import decode_manifest
from ductor.definitions.program import load_program
from ductor.definitions.triggers import TriggerError
from tests.definitions.marked import compile_one

TEXT = """\
name: order
input: {type: object, properties: {qty: {type: integer, default: 1}}}
search_attributes: {customer: "${trigger.customer}"}
steps:
  - ref: reserve
    type: task
    task: inventory.reserve
    input: {sku: "${trigger.sku}"}
    run_if: trigger.qty > 0
    on_error: continue
    effects: {"stock.left": "${output.left}", fixed: 7}
    next:
      success: [notify, charge]
      error: [audit, {choice: [{when: error.type == "OutOfStock", to: backorder}, {to: audit}]}]
      done: audit
  - {ref: charge, type: task, task: t, next: audit}
  - {ref: notify, type: task, task: t}
  - {ref: backorder, type: task, task: t}
  - {ref: audit, type: task, task: t, join: any, cancel_rest: true}
defer:
  - {ref: tell, type: task, task: t}
  - {ref: clean, type: transform, value: 1}
"""


@pytest.fixture(scope="module")
def compiled():
    return compile_one(TEXT)


@pytest.fixture(scope="module")
def program(compiled):
    return load_program(compiled.manifest, places=compiled.places)


def test_nodes_stand_in_order_with_the_steps_of_defer_last(program, compiled):
    assert list(program.nodes) == ["reserve", "charge", "notify", "backorder", "audit", "tell", "clean"]
    assert [node.position for node in program.nodes.values()] == list(range(7))
    assert [ref for ref, node in program.nodes.items() if node.is_defer] == ["tell", "clean"] == list(program.defers)
    assert program.entrypoints == ("reserve",)
    assert program.default_outputs == ("notify", "backorder", "audit")
    assert program.manifest_hash == compiled.manifest_hash


def test_neighbours_are_distinct_and_ordered(program):
    nodes = program.nodes
    assert nodes["reserve"].targets == ("charge", "notify", "backorder", "audit")
    assert nodes["audit"].predecessors == ("reserve", "charge")
    assert nodes["audit"].sources == 2
    assert nodes["audit"].ancestors == {"reserve", "charge"}
    assert nodes["charge"].ancestors == frozenset()
    assert nodes["tell"].sources == 0


def test_routes_are_by_outcome(program):
    routes = program.nodes["reserve"].routes
    assert set(routes) == {"success", "error", "done"}
    assert routes["success"].targets == ("charge", "notify")
    assert routes["success"].groups == ()
    assert routes["error"].targets == ("audit",)
    (group,) = routes["error"].groups
    (condition, to), default = group.branches
    assert (to, default) == ("backorder", (None, "audit"))
    assert condition.evaluate_boolean({"error": {"type": "OutOfStock"}})
    assert program.nodes["notify"].routes == {}


def test_fields_are_compiled_once(program):
    node = program.nodes["reserve"]
    assert node.run_if is node.expressions["run_if"]
    assert node.input is node.templates["input"]
    assert node.input is not None
    assert node.input.render({"trigger": {"sku": "A1"}}) == {"sku": "A1"}
    assert set(node.effects) == {"stock.left", "fixed"}
    assert node.effects["stock.left"].render({"output": {"left": 3}}) == 3
    assert node.effects["fixed"].constant
    assert "input" not in program.nodes["clean"].templates
    assert program.nodes["clean"].input is None


def test_what_the_definition_says_of_the_run(program):
    assert program.output is None
    assert program.search_attributes is not None
    assert program.search_attributes.render({"trigger": {"customer": "c"}}) == {"customer": "c"}
    assert program.trigger.validate({}) == {"qty": 1}
    with pytest.raises(TriggerError):
        program.trigger.validate({"qty": "many"})


def test_a_null_output_is_an_output():
    program = load_program(compile_one("name: a\noutput: null\nsteps: [{ref: a, type: task, task: t}]").manifest)
    assert program.output is not None
    assert program.output.render({}) is None


def test_errors_name_the_place_in_the_document(program):
    template = program.nodes["reserve"].input
    assert template is not None
    with pytest.raises(ExpressionError) as caught:
        template.render({"trigger": {}})
    assert (caught.value.place.line, caught.value.place.path) == (8, "steps[0].input.sku")


def test_errors_name_the_field_where_there_is_no_document(compiled):
    program = load_program(decode_manifest(compiled.canonical))
    template = program.nodes["reserve"].input
    assert template is not None
    with pytest.raises(ExpressionError) as caught:
        template.render({"trigger": {}})
    assert caught.value.place == Place(path="steps.reserve.input.sku")


def test_a_dictionary_of_places_will_do(compiled):
    place = Place(path="here", file="x.yaml", line=3, column=4)
    program = load_program(compiled.manifest, places={"steps.reserve.run_if": place})
    guard = program.nodes["reserve"].run_if
    assert guard is not None
    assert guard.place == place


def test_a_manifest_whose_expression_no_longer_compiles_is_refused(compiled):
    manifest = decode_manifest(compiled.canonical.replace(b"trigger.qty > 0", b"lost_function(1)"))
    with pytest.raises(ExpressionSyntaxError):
        load_program(manifest)
