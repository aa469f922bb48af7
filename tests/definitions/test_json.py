"""JSON (RFC 8259), exactly, with positions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.documents.json_reader import read_json
from ductor.definitions.errors import DefinitionError, Problem
from ductor.definitions.limits import DEFAULT_LIMITS, Limits
from tests.definitions.marked import below, unmark

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read(text, limits=DEFAULT_LIMITS):
    problems: list[Problem] = []
    value = read_json(text, limits, "x.json", problems).plain()
    if problems:
        raise DefinitionError(problems)
    return value


@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_reads_what_json_writes(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read(text) == value


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \n\\u'))
def test_refuses_what_the_standard_library_refuses(text):
    try:
        expected = json.loads(text, parse_constant=_no_constants, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError):
        with pytest.raises(DefinitionError):
            read(text)
    else:
        problems: list[Problem] = []
        value = read_json(text, DEFAULT_LIMITS, "", problems).plain()
        assert value == expected or {problem.code for problem in problems} <= {"number_out_of_range", "invalid_text"}


def _no_constants(name):
    raise ValueError(name)


def _no_duplicates(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("duplicate")
    return dict(pairs)


@pytest.mark.parametrize(
    ("code", "marked"),
    [
        ("duplicate_key", '{"a": 1, »"a": 2}'),
        ("invalid_json", '{"a": 1,»}'),
        ("invalid_json", '{"a": »}'),
        ("invalid_json", "[1, »]"),
        ("invalid_json", "{»a: 1}"),
        ("invalid_json", '{"a" »1}'),
        ("invalid_json", '{"a": 1} »x'),
        ("invalid_json", '{"a": »NaN}'),
        ("invalid_json", '{"a": 0»1}'),
        ("invalid_json", "[1»"),
        ("invalid_json", "»"),
        ("invalid_json", '["a»\tb"]'),
        ("invalid_json", '{"a": 1 »/* no */}'),
        ("number_out_of_range", '{"a": »9007199254740993}'),
        ("number_out_of_range", '{"a": »1e400}'),
        ("number_out_of_range", f"[»{'1' * 5000}]"),
        ("invalid_text", '["é", »"\\ud800"]'),
    ],
)
def test_what_is_refused_and_where(code, marked):
    text, positions = unmark(marked)
    with pytest.raises(DefinitionError) as caught:
        read(text)
    assert [(one.code, (one.place.line, one.place.column)) for one in caught.value.problems] == [(code, positions[0])]


def test_positions_count_lines_and_characters():
    root = read_json('{\n  "é": [\n    1,  2]}', DEFAULT_LIMITS, "", [])
    assert root.keys == {"é": (2, 3)}
    assert below(root, "é").position == (2, 8)
    assert below(root, "é", 1).position == (3, 9)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_endless_openings_end_at_the_depth(text):
    with pytest.raises(DefinitionError, match="limit `depth`"):
        read(text)


def test_limits():
    assert read("[[1]]", Limits(depth=2)) == [[1]]
    with pytest.raises(DefinitionError, match="limit `depth`"):
        read("[[1]]", Limits(depth=1))
    with pytest.raises(DefinitionError, match="limit `nodes`"):
        read("[1, 2]", Limits(nodes=2))
