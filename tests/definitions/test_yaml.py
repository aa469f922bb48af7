"""YAML 1.2, exactly; and texts made to hurt."""
# ruff: noqa: E501  (a case is one line)

import pytest
import yaml

from ductor.definitions.documents import yaml_reader
from ductor.definitions.documents.yaml_reader import read_yaml
from ductor.definitions.errors import DefinitionError, Problem
from ductor.definitions.limits import DEFAULT_LIMITS, Limits
from tests.definitions.marked import below, unmark


@pytest.fixture(params=["libyaml", "pure Python"], autouse=True)
def _parser(request, monkeypatch):
    """Everything here holds with libyaml and without."""
    if request.param == "pure Python":
        monkeypatch.setattr(yaml_reader, "_LOADER", yaml.SafeLoader)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML is built without libyaml here")


def read(text, limits=DEFAULT_LIMITS):
    problems: list[Problem] = []
    documents = [root.plain() for root in read_yaml(text, limits, "x.yaml", problems)]
    if problems:
        raise DefinitionError(problems)
    return documents


def refused(text, limits=DEFAULT_LIMITS):
    with pytest.raises(DefinitionError) as caught:
        read(text, limits)
    return [(one.code, (one.place.line, one.place.column)) for one in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("no", "no"), ("yes", "yes"), ("off", "off"), ("y", "y"), ("n", "n"),
        ("true", True), ("True", True), ("FALSE", False), ("null", None), ("~", None), ("Null", None), ("''", ""),
        ("010", 10), ("0o10", 8), ("0x1F", 31), ("0b11", "0b11"), ("1_000", "1_000"), ("+12", 12), ("-7", -7),
        ("12:30:00", "12:30:00"), ("1:20", "1:20"), ("2026-11-29", "2026-11-29"), ("2026-11-29T08:00:00Z", "2026-11-29T08:00:00Z"),
        ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5e-3", -0.0015), ("1.2.3", "1.2.3"), ("1e", "1e"),
        ("'10'", "10"), ('"true"', "true"), ("!!str 10", "10"), ("! 10", "10"), ("=", "="), ("<<", "<<"),
        ("|\n  a\n  b\n", "a\nb\n"), (">-\n  a\n  b\n", "a b"), ('"\\u00e9\\x41"', "éA"), ("a b  c", "a b  c"),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema(text, value):
    (document,) = read(f"x: {text}")
    assert document["x"] == value
    assert type(document["x"]) is type(value)


def test_keys_stay_text():
    assert read("on: 1\nyes: 2\n") == [{"on": 1, "yes": 2}]


@pytest.mark.parametrize("key", ["true", "1", "null", "1.5", "~"])
def test_keys_that_are_no_text_are_refused(key):
    assert refused(f"a: 1\n{key}: 2\n") == [("key_not_text", (2, 1))]


def test_a_map_or_a_list_is_no_key():
    assert refused("? [a]\n: b\n") == [("key_not_text", (1, 3))]
    assert refused("{? {a: b} : c}") == [("key_not_text", (1, 4))]


@pytest.mark.parametrize(
    ("code", "marked"),
    [
        ("duplicate_key", "a: 1\nb: {c: 1, »c: 2}\n"),
        ("merge_key", "x: &x {a: 1}\ny: {»<<: *x, b: 2}\n"),
        ("unknown_anchor", "a: »*nowhere\n"),
        ("alias_cycle", "a: &a [1, »*a]\n"),
        ("anchor_on_key", "»&k a: 1\n"),
        ("unknown_tag", "a: »!secret x\n"),
        ("unknown_tag", "a: »!!binary aGk=\n"),
        ("unknown_tag", "a: »!!python/object:os.system {}\n"),
        ("number_out_of_range", "a: »9007199254740993\n"),
        ("number_out_of_range", "a: »-9007199254740992\n"),
        ("number_out_of_range", f"a: »{'9' * 5000}\n"),
        ("number_out_of_range", "a: »1e999\n"),
        ("number_out_of_range", "a: »1e16\n"),
        ("number_out_of_range", "a: ».inf\n"),
        ("number_out_of_range", "a: ».NaN\n"),
        ("line_break", "a: 'x»\u2028y'\n"),
        ("line_break", "a: 1\nb: »\x85\n"),
        ("invalid_yaml", "a: b»: c\n"),
        ("invalid_yaml", "a:\n»\t- b\n"),
        ("invalid_yaml", "a: »@b\n"),
        ("invalid_yaml", "a: [1, 2\nb»: 3\n"),
    ],
)
def test_what_is_refused_and_where(code, marked):
    text, positions = unmark(marked)
    found = refused(text)
    if code == "invalid_yaml":
        assert found[0][0] == code
        assert abs(found[0][1][0] - positions[0][0]) <= 1
    else:
        assert found == [(code, position) for position in positions]


@pytest.mark.parametrize("character", ["\0", "\x07", "\x1b", "\x7f"])
def test_control_characters_are_refused(character):
    (problem,) = refused(f"a: 1\nb: x{character}y\n")
    assert problem[0] in ("invalid_yaml", "invalid_character")


def test_slips_are_explained():
    with pytest.raises(DefinitionError, match="not tabs"):
        read("a:\n\t- b\n")
    with pytest.raises(DefinitionError, match="quotes"):
        read("when: a ? b: c\n")


def test_aliases_repeat_values():
    assert read("a: &x {b: [1, 2]}\nc: *x\n") == [{"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}]


def test_anchors_do_not_reach_across_documents():
    assert refused("a: &x 1\n---\nb: *x\n") == [("unknown_anchor", (3, 4))]


def test_documents_are_told_apart_and_empty_ones_passed_over():
    assert read("a: 1\n---\n---\n# nothing\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]


def test_json_is_yaml():
    assert read('{"a":[1,"x",{"b":null}],"c":true}') == [{"a": [1, "x", {"b": None}], "c": True}]


def test_positions_count_characters():
    problems: list[Problem] = []
    (root,) = read_yaml("a: {é: 1, 😀: [x,  y]}\r\nb: 2\r\n", DEFAULT_LIMITS, "", problems)
    assert below(root, "a").keys == {"é": (1, 5), "😀": (1, 11)}
    assert below(root, "a", "😀", 1).position == (1, 19)
    assert root.key_position("b") == (2, 1)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{', '.join(['*' + chr(97 + level)] * 10)}]\n" for level in range(9)
)


def test_an_alias_bomb_is_stopped_by_the_nodes_it_would_make():
    assert [code for code, _ in refused(BOMB)] == ["limit_exceeded"]


@pytest.mark.parametrize(
    ("limit", "text", "fits"),
    [
        ("depth", "a: [[1]]", 3),
        ("nodes", "[1, 2, 3]", 4),
        ("aliases", "a: &a 1\nb: [*a, *a]", 2),
        ("text_length", "a: xxxxx", 5),
        ("key_length", "xxxxx: 1", 5),
    ],
)
def test_limits(limit, text, fits):
    assert read(text, Limits(**{limit: fits}))
    found = refused(text, Limits(**{limit: fits - 1}))
    assert [code for code, _ in found] == ["limit_exceeded"]


def test_depth_counts_what_aliases_bring():
    text = "a: &a [[1]]\nb: [[*a]]\n"
    assert read(text, Limits(depth=5))
    assert [code for code, _ in refused(text, Limits(depth=4))] == ["limit_exceeded"]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 50_000, "- " * 50_000, "'" * 99_999, "&a " * 30_000, "!" * 50_000]
)
def test_endless_openings_end_at_once(text):
    assert refused(text)


def test_half_a_surrogate_pair_is_no_text():
    assert refused('a: "\\ud800"\n')
