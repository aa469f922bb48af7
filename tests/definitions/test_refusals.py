"""Everything the compiler refuses: the code of the problem, and the exact line and column."""
# ruff: noqa: E501  (a case is one line)

import pytest

from tests.definitions.marked import problems_of, unmark

STRUCTURE = [
    ("unknown_key", "name: a\n»nmae: b\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("unknown_key", "name: a\nsteps:\n  - {ref: a, type: task, task: t, »retries: 3}\n"),
    ("unknown_key", "name: a\nsteps:\n  - ref: a\n    type: task\n    task: t\n    retry: {»attempts: 3}\n"),
    ("unknown_key", "name: a\nsteps: [{ref: a, type: conditional, when: 'true', »timeout: 3s}]\n"),
    (
        "unknown_key",
        "name: a\nsteps: [{ref: a, type: task, task: t, next: {choice: [{when: 'true', to: b, »orelse: c}, {to: b}]}}, {ref: b, type: task, task: t}]\n",
    ),
    (
        "unknown_key",
        "name: a\nsteps: [{ref: a, type: task, task: t, next: {choice: [{to: b}], »success: b}}, {ref: b, type: task, task: t}]\n",
    ),
    ("missing_key", "»steps: [{ref: a, type: task, task: t}]\n"),
    ("missing_key", "»name: a\n"),
    ("missing_key", "name: a\nsteps:\n  - »{type: task, task: t}\n"),
    ("missing_key", "name: a\nsteps:\n  - »{ref: a, task: t}\n"),
    ("missing_key", "name: a\nsteps:\n  - »{ref: a, type: task}\n"),
    ("missing_key", "name: a\nsteps:\n  - {ref: a, type: rule, rules: [»{then: 1}]}\n"),
    (
        "missing_key",
        "name: a\nsteps: [{ref: a, type: task, task: t, next: {choice: [»{when: 'true'}, {to: b}]}}, {ref: b, type: task, task: t}]\n",
    ),
    ("missing_key", "name: a\nsteps: [»{ref: a, type: scatter, items_expr: '[1]'}]\n"),
    ("missing_key", "name: a\nsteps: [»{ref: a, type: subworkflow}]\n"),
    (
        "two_children",
        "name: a\nsteps: [{ref: a, type: subworkflow, definition: b, »do: {steps: [{ref: x, type: task, task: t}]}}]\n",
    ),
    (
        "invalid_child",
        "name: a\nsteps: [{ref: a, type: scatter, items_expr: '[1]', do: »{type: wait, duration: 1s}}]\n",
    ),
    (
        "invalid_child",
        "name: a\nsteps: [{ref: a, type: scatter, items_expr: '[1]', do: {type: task, task: t, »ref: x}}]\n",
    ),
    ("unknown_type", "name: a\nsteps: [{ref: a, type: »tsk, task: t}]\n"),
    ("unknown_type", "name: a\ndefaults: {»tasks: {}}\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("invalid_default", "name: a\ndefaults: {task: {»ref: b}}\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("wrong_type", "name: a\ndefaults: {task: »3}\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("wrong_type", "name: a\nsteps: »{ref: a, type: task, task: t}\n"),
    ("wrong_type", "name: a\nsteps: »[]\n"),
    ("wrong_type", "name: a\nsteps: [»3]\n"),
    ("wrong_type", "name: »3\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, cancel_rest: »'yes'}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, priority: »high}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, priority: »1.5}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, on_error: »true}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, timeout: {attempt: »30}}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, effects: »[1]}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, compensate: »undo}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, next: »3}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, next: {choice: »[]}}]\n"),
    ("wrong_type", "name: a\nsteps: [{ref: a, type: task, task: t, next: {choice: [»b]}}]\n"),
    ("wrong_type", "»- a\n- b\n"),
    ("out_of_range", "ductor: »2\nname: a\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("out_of_range", "name: a\nsteps: [{ref: a, type: task, task: t, retry: »0}]\n"),
    ("out_of_range", "name: a\nsteps: [{ref: a, type: task, task: t, retry: {jitter: »2}}]\n"),
    ("out_of_range", "name: a\nsteps: [{ref: a, type: task, task: t, join: »0}]\n"),
    ("invalid_choice", "name: a\nsteps: [{ref: a, type: task, task: t, on_error: »continu}]\n"),
    ("invalid_choice", "name: a\nsteps: [{ref: a, type: task, task: t, join: »both}]\n"),
    ("invalid_duration", "name: a\nsteps: [{ref: a, type: task, task: t, timeout: »30 s}]\n"),
    ("invalid_duration", "name: a\nsteps: [{ref: a, type: task, task: t, timeout: »0s}]\n"),
    ("invalid_timestamp", "name: a\nsteps: [{ref: a, type: wait, until: »'2300-01-01T00:00:00Z'}]\n"),
    ("invalid_timestamp", "name: a\nsteps: [{ref: a, type: wait, until: »'0001-01-01T00:00:00Z'}]\n"),
    ("invalid_duration", "name: a\ntimeout: »1y\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("invalid_timestamp", "name: a\nsteps: [{ref: a, type: wait, until: »2026-11-30T08:00:00}]\n"),
    ("invalid_ref", "name: a\nsteps: [{ref: »A1, type: task, task: t}]\n"),
    ("invalid_ref", f"name: a\nsteps: [{{ref: »1{'a' * 20}, type: task, task: t}}]\n"),
    ("text_too_long", f"name: a\nsteps: [{{ref: »{'a' * 65}, type: task, task: t}}]\n"),
    ("invalid_name", "name: »a b\nsteps: [{ref: a, type: task, task: t}]\n"),
    ("empty_text", "name: a\nsteps: [{ref: a, type: conditional, when: »''}]\n"),
    ("wrapped_expression", "name: a\nsteps: [{ref: a, type: conditional, when: »'${trigger.x}'}]\n"),
    ("duplicate_ref", "name: a\nsteps:\n  - {ref: a, type: task, task: t}\n  - {ref: »a, type: task, task: t}\n"),
    (
        "duplicate_ref",
        "name: a\nsteps:\n  - {ref: a, type: task, task: t}\ndefer:\n  - {ref: »a, type: task, task: t}\n",
    ),
    (
        "duplicate_name",
        "name: a\nsteps: [{ref: a, type: task, task: t}]\n---\nname: »a\nsteps: [{ref: a, type: task, task: t}]\n",
    ),
    (
        "duplicate_edge",
        "name: a\nsteps: [{ref: a, type: task, task: t, next: [b, »b]}, {ref: b, type: task, task: t}]\n",
    ),
    (
        "unknown_outcome",
        "name: a\nsteps: [{ref: a, type: task, task: t, next: {»succes: b}}, {ref: b, type: task, task: t}]\n",
    ),
    (
        "next_in_defer",
        "name: a\nsteps: [{ref: a, type: task, task: t}]\ndefer: [{ref: b, type: task, task: t, »next: a}]\n",
    ),
    (
        "compensate_in_defer",
        "name: a\nsteps: [{ref: a, type: wait, signal: s}]\ndefer: [{ref: b, type: task, task: t, »compensate: {task: u}}]\n",
    ),
]

FIELDS = [
    ("on_skip_without_run_if", "on_skip: »stop"),
    ("cancels_itself", "cancels: »[a]"),
    ("compensate_needs_one", "compensate: »{}"),
    ("compensate_needs_one", "compensate: »{task: t, child: true}"),
    ("compensate_without_child", "compensate: »{child: true}"),
    ("timeout_order", "compensate: {task: t, timeout: {attempt: »2m, total: 1m}}"),
    ("retry_order", "compensate: {task: t, retry: {initial: 10s, max: »1s}}"),
    ("retry_order", "retry: {initial: 1m, max: »30s}"),
    ("retry_contradiction", "retry: {only: [X], except: »[X]}"),
    ("retry_unreachable", "retry: [»{max_attempts: 2}, {only: [X]}]"),
    ("timeout_order", "timeout: {attempt: »10m, total: 1m}"),
    ("task_without_allow_list", "task: »'t.${trigger.x}'"),
    ("needless_allow_list", "task: t, tasks: »[t]"),
    ("invalid_name", "task: »'a b'"),
]

STEPS = [
    ("compensate_child_alone", "{ref: a, type: subworkflow, definition: d, compensate: »{child: true, retry: 2}}"),
    ("empty_table", "{ref: a, type: rule, rules: »[]}"),
    ("error_without_end", "{ref: a, type: transform, error: »{type: X}}"),
    ("wait_needs_one", "»{ref: a, type: wait}"),
    ("wait_needs_one", "{ref: a, type: wait, duration: 1s, signal: »go}"),
    ("invalid_cron", "{ref: a, type: wait, cron: »'99 * * * *'}"),
    ("invalid_timezone", "{ref: a, type: wait, cron: '0 3 * * *', timezone: »Mars/North}"),
    ("timezone_without_cron", "{ref: a, type: wait, duration: 1s, timezone: »Europe/Oslo}"),
    ("match_without_event", "{ref: a, type: wait, duration: 1s, match: »'true'}"),
    ("lookback_without_event", "{ref: a, type: wait, duration: 1s, lookback: »1h}"),
    ("no_approvers", "{ref: a, type: approval, approvers: »[]}"),
    ("no_approvers", "{ref: a, type: approval, approvers: »boss}"),
    ("quorum_unreachable", "{ref: a, type: approval, approvers: [x, y], quorum: »3}"),
    ("empty_event_set", "{ref: a, type: event_set, events: »[]}"),
    ("quorum_missing", "{ref: a, type: event_set, events: [{name: x}], policy: »quorum}"),
    ("count_missing", "{ref: a, type: event_set, events: [{name: x}], policy: »count}"),
    ("needless_count", "{ref: a, type: event_set, events: [{name: x}], count: »2}"),
    ("quorum_unreachable", "{ref: a, type: event_set, events: [{name: x}], policy: quorum, quorum: »2}"),
    ("timeout_missing", "{ref: a, type: event_set, events: [{name: x}], policy: »until_timeout}"),
    ("window_too_large", "{ref: a, type: digest, key: k, item: 1, window: {duration: 1h, count: »10001}}"),
    ("endless_window", "{ref: a, type: digest, key: k, item: 1, window: »{count: 3}}"),
    ("invalid_wait_for", "{ref: a, type: subworkflow, definition: b, wait_for: »checkpoint}"),
    ("on_timeout_without_timeout", "{ref: a, type: subworkflow, definition: b, »on_timeout: detach}"),
    ("on_timeout_without_timeout", "{ref: a, type: wait, signal: s, »on_timeout: skip}"),
    ("async_waits", "{ref: a, type: subworkflow, definition: b, mode: async, timeout: »1m}"),
    ("run_if_on_child", "{ref: a, type: scatter, items_expr: '[1]', do: {type: task, task: t, run_if: »'true'}}"),
    (
        "retry_order",
        "{ref: a, type: scatter, items_expr: '[1]', do: {type: task, task: t, retry: {initial: 1m, max: »30s}}}",
    ),
    ("invalid_schema", "{ref: a, type: interaction, ask: who, schema: {type: »objct}}"),
]

GRAPH = [
    ("unknown_step", "steps: [{ref: reserve, type: task, task: t, next: »reserv}]"),
    ("unknown_step", "steps: [{ref: a, type: task, task: t, cancels: [»b]}]"),
    ("edge_to_defer", "steps: [{ref: a, type: task, task: t, next: »b}]\ndefer: [{ref: b, type: task, task: t}]"),
    ("cycle", "steps:\n  - »{ref: a, type: task, task: t, next: b}\n  - {ref: b, type: task, task: t, next: a}"),
    ("cycle", "steps: [»{ref: a, type: task, task: t, next: a}]"),
    (
        "impossible_outcome",
        "steps: [{ref: a, type: task, task: t, next: {»true: b}}, {ref: b, type: task, task: t}]".replace(
            "»true: b", '"true": »b'
        ),
    ),
    (
        "impossible_outcome",
        "steps: [{ref: a, type: conditional, when: 'true', next: »b}, {ref: b, type: task, task: t}]",
    ),
    (
        "impossible_outcome",
        "steps: [{ref: a, type: approval, approvers: [x], next: {success: »b}}, {ref: b, type: task, task: t}]",
    ),
    (
        "error_edge_without_continue",
        "steps: [{ref: a, type: task, task: t, next: {error: »b}}, {ref: b, type: task, task: t}]",
    ),
    (
        "timeout_edge_without_timeout",
        "steps: [{ref: a, type: wait, signal: go, next: {timeout: »b}}, {ref: b, type: task, task: t}]",
    ),
    ("edge_after_end", "steps: [{ref: a, type: transform, end: failed, next: »b}, {ref: b, type: task, task: t}]"),
    (
        "choice_without_default",
        "steps: [{ref: a, type: task, task: t, next: {choice: [{when: »'true', to: b}]}}, {ref: b, type: task, task: t}]",
    ),
    (
        "choice_default_first",
        "steps: [{ref: a, type: task, task: t, next: {choice: [{to: »b}, {to: c}]}}, {ref: b, type: task, task: t}, {ref: c, type: task, task: t}]",
    ),
    ("join_unreachable", "steps: [{ref: a, type: task, task: t, next: b}, {ref: b, type: task, task: t, join: »2}]"),
    (
        "cancel_rest_without_race",
        "steps: [{ref: a, type: task, task: t, next: b}, {ref: b, type: task, task: t, cancel_rest: »true}]",
    ),
    (
        "on_skip_missing",
        "steps: [{ref: a, type: conditional, when: 'true', run_if: »'true', next: {\"true\": b}}, {ref: b, type: task, task: t}]",
    ),
    (
        "gather_without_scatter",
        "steps: [{ref: a, type: task, task: t, next: b}, {ref: b, type: gather, scatter_ref: »a}]",
    ),
    ("unknown_step", "steps: [{ref: b, type: gather, scatter_ref: »a}]"),
    (
        "gather_before_scatter",
        "steps: [{ref: a, type: scatter, items_expr: '[1]', do: {type: task, task: t}}, {ref: b, type: gather, scatter_ref: »a}]",
    ),
]

EXPRESSIONS = [
    ("expression_syntax", "steps: [{ref: a, type: conditional, when: »'trigger.x ==='}]"),
    ("expression_syntax", "steps: [{ref: a, type: task, task: t, input: {deep: [1, »'${trigger.x'] }}]"),
    ("expression_unknown_variable", "steps: [{ref: a, type: conditional, when: »triger.x == 1}]"),
    ("expression_unknown_variable", "steps: [{ref: a, type: conditional, when: »output == 1}]"),
    ("expression_unknown_variable", "steps: [{ref: a, type: task, task: t, effects: {x: »'${event.id}'}}]"),
    ("expression_unknown_function", "steps: [{ref: a, type: conditional, when: »lowr(trigger.x) == 'a'}]"),
    ("unknown_step", "steps: [{ref: a, type: conditional, when: »steps.b.output.x}]"),
    ("own_step", "steps: [{ref: a, type: task, task: t, input: {x: »'${steps.a.output}'}}]"),
    (
        "later_step",
        "steps: [{ref: a, type: task, task: t, input: {x: »'${steps.b.output}'}, next: b}, {ref: b, type: task, task: t}]",
    ),
    (
        "later_step",
        "steps: [{ref: a, type: task, task: t, next: {choice: [{when: »steps.b.output.x, to: b}, {to: b}]}}, {ref: b, type: task, task: t}]",
    ),
    (
        "later_step",
        "steps: [{ref: a, type: task, task: t, input: »'${steps.b.output}'}]\ndefer: [{ref: b, type: task, task: t}]",
    ),
    (
        "later_step",
        "output: »'${steps.b.output}'\nsteps: [{ref: a, type: task, task: t}]\ndefer: [{ref: b, type: task, task: t}]",
    ),
    ("unknown_step", "output: {x: {y: »'${steps.b.output}'}}\nsteps: [{ref: a, type: task, task: t}]"),
    (
        "expression_unknown_variable",
        "search_attributes: {x: »'${steps.a.output}'}\nsteps: [{ref: a, type: task, task: t}]",
    ),
    (
        "expression_unknown_variable",
        "triggers: [{cron: '0 3 * * *', input: {x: »'${event.id}'}}]\nsteps: [{ref: a, type: task, task: t}]",
    ),
    (
        "expression_unknown_variable",
        "triggers: [{event: x, match: »trigger.y}]\nsteps: [{ref: a, type: task, task: t}]",
    ),
    ("expression_unknown_variable", "steps: [{ref: a, type: scatter, items_expr: »item.x, do: {type: task, task: t}}]"),
    (
        "unknown_step",
        "steps: [{ref: a, type: scatter, items_expr: '[1]', do: {steps: [{ref: x, type: task, task: t, input: »'${steps.a.output}'}]}}]",
    ),
]

MESSAGES = [
    ("trigger_needs_one", "triggers: [»{input: 1}]"),
    ("trigger_needs_one", "triggers: [»{cron: '0 3 * * *', event: x}]"),
    ("invalid_cron", "triggers: [{cron: »'0 3 * *'}]"),
    ("invalid_timezone", "triggers: [{cron: '0 3 * * *', timezone: »Oslo}]"),
    ("match_without_event", "triggers: [{cron: '0 3 * * *', match: »'true'}]"),
    ("key_with_overlap", "triggers: [{cron: '0 3 * * *', key: »k}]"),
    ("handler_needs_one", "on: [»{effects: {x: 1}}]"),
    ("unknown_step", "on: [{signal: x, cancels: [»b]}]"),
    ("unknown_step", "on: [{signal: x, effects: {y: »'${steps.b.output}'}}]"),
    ("on_timeout_without_timeout", "on_timeout: »cancel"),
    ("invalid_schema", "input: {type: »objct}"),
    ("invalid_schema", "input: {properties: {a: {$ref: »'https://example.com/x'}}}"),
    ("invalid_schema", "input: {$schema: »'http://json-schema.org/draft-04/schema#'}"),
    ("invalid_schema", "input: {properties: {a: {pattern: »'(?=x)y'}}}"),
    ("invalid_schema", "input: »hello"),
    ("invalid_default", "input: {properties: {a: {type: integer, default: »x}}}"),
]


def assert_refused(code, marked):
    text, positions = unmark(marked)
    found = [(problem.code, (problem.place.line, problem.place.column)) for problem in problems_of(text, file="x.yaml")]
    assert found == [(code, position) for position in positions]


@pytest.mark.parametrize(("code", "marked"), STRUCTURE)
def test_what_a_document_may_not_look_like(code, marked):
    assert_refused(code, marked)


@pytest.mark.parametrize(("code", "fields"), FIELDS)
def test_what_the_fields_of_a_task_may_not_say(code, fields):
    task = "" if fields.startswith("task:") else "task: t, "
    assert_refused(code, f"name: a\nsteps:\n  - {{ref: a, type: task, {task}{fields}}}\n")


@pytest.mark.parametrize(("code", "step"), STEPS)
def test_what_a_step_may_not_say(code, step):
    assert_refused(code, f"name: a\nsteps:\n  - {step}\n")


@pytest.mark.parametrize(("code", "rest"), GRAPH)
def test_what_a_graph_may_not_be(code, rest):
    assert_refused(code, f"name: a\n{rest}\n")


@pytest.mark.parametrize(("code", "rest"), EXPRESSIONS)
def test_what_expressions_may_not_be(code, rest):
    assert_refused(code, f"name: a\n{rest}\n")


@pytest.mark.parametrize(("code", "rest"), MESSAGES)
def test_what_belongs_to_the_definition_may_not_be(code, rest):
    assert_refused(code, f"name: a\n{rest}\nsteps: [{{ref: a, type: task, task: t}}]\n")


def test_every_problem_is_told_at_once_in_document_order():
    text, positions = unmark(
        """\
»version: 2026
name: order
input: {type: »objct}
steps:
  - ref: reserve
    type: tsk
  - ref: pay
    type: task
    task: pay
    retry: {»attempts: 3}
    input: {x: »"${steps.nowhere.output}"}
    next: »shipp
  - ref: ship
    type: conditional
    when: »trigger.x ==
""".replace("»version: 2026", "version: »2026").replace("type: tsk", "type: »tsk")
    )
    found = [(problem.place.line, problem.place.column) for problem in problems_of(text)]
    assert found == positions


def test_problems_name_what_would_be_valid():
    hints = {
        "name: a\nsteps: [{ref: a, type: conditional, when: 'true', on_eror: fail}]": "Did you mean `on_error`?",
        "name: a\nsteps: [{ref: a, type: tak, task: t}]": "Did you mean `task`?",
        "name: a\nsteps: [{ref: a, type: task, task: t, on_error: stop}]": "Valid: continue, fail.",
        "name: a\nsteps: [{ref: alpha, type: task, task: t, next: alpa}]": "Did you mean `alpha`?",
    }
    for text, hint in hints.items():
        (problem,) = problems_of(text)
        assert problem.hint == hint


def test_a_cycle_is_named():
    (problem,) = problems_of(
        "name: a\nsteps: [{ref: a, type: task, task: t, next: b}, {ref: b, type: task, task: t, next: c},"
        " {ref: c, type: task, task: t, next: [b, d]}, {ref: d, type: task, task: t}]"
    )
    assert "b → c → b" in problem.message


def test_an_error_is_one_text_that_tells_where():
    text = "name: a\nsteps:\n  - {ref: a, type: task, task: t, retries: 3}\n"
    (problem,) = problems_of(text, file="flows/a.yaml")
    assert str(problem) == "flows/a.yaml:3:35 (steps[0].retries): unknown key `retries`. Did you mean `retry`?"


def test_a_misspelt_field_is_not_called_missing():
    (problem,) = problems_of("name: a\nsteps: [{ref: a, type: wait, duration: 5}]")
    assert problem.code == "wrong_type"


def test_edges_of_a_step_that_can_not_be_read_are_still_known():
    problems = problems_of(
        "name: a\nsteps: [{ref: a, type: task, next: b}, {ref: b, type: task, task: t, cancels: [a]}]"
    )
    assert [problem.code for problem in problems] == ["missing_key"]
