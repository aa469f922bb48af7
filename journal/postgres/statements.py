"""The store's SQL, read from the `.sql` files beside this one.

A file holds named texts (`-- name: head`). Parameters are named in the text (`:run_id`) and numbered here.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

from ductor.journal.store import MAX_UNCONSUMED_SENT_MESSAGES

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


class Statement(msgspec.Struct, frozen=True):
    """SQL with numbered parameters, and the parameters' names in order."""

    text: str
    parameters: tuple[str, ...]

    def arguments(self, values: Mapping[str, object]) -> list[object]:
        """The values in the order of the parameters. KeyError when one is missing."""
        return [values[name] for name in self.parameters]


def number_parameters(text: str) -> Statement:
    """Turn named parameters into numbered ones; a name that comes again keeps its number."""
    numbers: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda match: f"${numbers.setdefault(match[1], len(numbers) + 1)}", text)
    return Statement(numbered, tuple(numbers))


def read_named(file: str, package: str = __package__) -> dict[str, str]:
    """The named texts of an SQL file of a package, this one if none is named."""
    parts = _NAME.split(resources.files(package).joinpath(file).read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


_COMMIT = {
    name: text
    for file in ("commit.sql", "commit_children.sql", "commit_waiting.sql", "commit_chain.sql")
    for name, text in read_named(file).items()
}
_HEADS = read_named("heads.sql")
QUERIES: Mapping[str, Statement] = {
    name: number_parameters(text)
    for file in (
        "queries.sql",
        "waiting.sql",
        "wakeups.sql",
        "digests.sql",
        "leases.sql",
        "bulk_controls.sql",
        "transfer.sql",
        "compaction.sql",
        "set_aside.sql",
        "workers.sql",
    )
    for name, text in read_named(file).items()
} | {
    # moves what was left behind in a run that another one continues; the columns are those of a batch
    "pass_on": number_parameters("\n".join((_COMMIT["no_winners"], _COMMIT["forwards"], _COMMIT["forwarded_count"])))
}
RESOLVE_LOSERS = number_parameters(_COMMIT["resolve_losers"])

LONE_COMMITS: Mapping[frozenset[str], Statement] = {
    parts: number_parameters(_COMMIT[name].replace("{has_previous}", _COMMIT["has_previous"]))
    for parts, name in (
        (frozenset[str](), "lone_row"),
        (frozenset({"starts"}), "lone_start"),
        (frozenset({"heads"}), "lone_head"),
    )
}
"""Statements of a commit that goes alone, by its parts: of those that a run with nothing beside it needs."""

# in the order of tables that every statement keeps
_OPTIONAL_PARTS = (
    "new_keys",
    "new_runs",
    "payloads",
    "new_payloads",
    "heads",
    "timers",
    "new_timers",
    "controls",
    "sent_controls",
    "attempts",
    "messages",
    "sent",
    "refused_runs",
    "undo_answers",
    "waits_gone",
    "waits",
    "inbox_gone",
    "inbox",
    "digests",
    "leases_handed_on",
    "leases",
    "published",
    "chains",
    "forwards",
)


@cache
def commit_statement(parts: frozenset[str]) -> Statement:
    """The statement that commits a batch whose commits need `parts` beside their journal rows.

    `parts` is taken from: starts, keys (only with starts), and the optional ones.
    """
    with_starts, with_keys = "starts" in parts, "keys" in parts
    fillings = {
        "{has_key}": _COMMIT["has_key" if with_keys else "has_no_key"],
        "{has_previous}": _COMMIT["has_previous_or_head" if with_starts else "has_previous"],
        "{has_child_key}": _COMMIT["has_child_key" if "new_keys" in parts else "has_no_child_key"],
        "{is_just_started}": _COMMIT["is_just_started"] if "new_runs" in parts else "",
        "{is_not_just_started}": _COMMIT["is_not_just_started"] if "new_runs" in parts else "",
        "{or_key_without_head}": _COMMIT["or_key_without_head"] if with_keys else "",
        "{max_unconsumed_sent_messages}": str(MAX_UNCONSUMED_SENT_MESSAGES),
    }
    texts = (
        "WITH",
        _COMMIT["keys"] if with_keys else "",
        _COMMIT["starts"] if with_starts else "",
        _COMMIT["rows"],
        *(_COMMIT[part] for part in _OPTIONAL_PARTS if part in parts),
        _COMMIT["winners_with_starts" if with_starts else "winners"],
    )
    text = "\n".join(text for text in texts if text)
    for mark, filling in fillings.items():
        text = text.replace(mark, filling)
    return number_parameters(text)


@cache
def heads_statement(conditions: frozenset[str]) -> Statement:
    """The statement that lists heads under `conditions`: tenant, definition, statuses, parent_run_ids, root_run_id,
    before_run_id."""
    text = " AND ".join(_HEADS[condition] for condition in sorted(conditions))
    return number_parameters(_HEADS["heads"].replace("{conditions}", text or "true"))
