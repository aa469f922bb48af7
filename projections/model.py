"""What a projection is: its tables, and what it makes of the journal's rows.

A projection is a class:

    class OrdersPerCustomer(Projection):
        name = "orders_per_customer"
        revision = 1
        schema = "CREATE TABLE customer_orders (customer text PRIMARY KEY, orders bigint NOT NULL)"

        def apply(self, event, run):
            if isinstance(event, RunStarted) and run.definition == "order":
                yield Statement(UPSERT, (event.search_attributes["customer"],))

`apply` is pure: it returns statements as values, and the projector executes them in the transaction that moves the
checkpoint. Tables are named without a schema: each generation of a model has a PostgreSQL schema of its own, which is
first on the search path while `schema`, `indexes`, `views` and statements are executed.

A projection that gains from looking at many rows at once overrides `apply_rows` instead. It must depend on nothing but
the rows and its own tables: a batch may be rolled back and come again in smaller ones, from this host or another.
"""

import re
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import asyncpg
import msgspec

from ductor.journal.events import AnyEvent
from ductor.journal.records import FeedPosition, Head
from ductor.projections.errors import InvalidProjectionError

if TYPE_CHECKING:
    from ductor.projections.batch import RowBatch

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,39}")
VIEW_PATTERN = re.compile(r"report_[a-z0-9_]{1,48}")
VIEWS_OF_THE_JOURNAL = frozenset({"report_inbox", "report_health"})
"""Views that no projection stands behind: they are made with the database."""
MAX_STATEMENTS_PER_BATCH = 200_000
"""Statements that one batch of rows may make of a projection's `apply`."""


class Statement(msgspec.Struct, frozen=True):
    """SQL with numbered parameters (`$1`), and their values in order."""

    text: str
    arguments: tuple[object, ...] = ()


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """One row of a run's journal, and what is known of the run.

    Attributes:
        head: the run as people list it. It may be newer than this row: only what never changes (tenant, definition,
            start) is the same each time the row is read.
        version: of the row, from 1.
        at_us: its time, microseconds since the epoch.
        events: those of them that are known to this version of the software.
        size_bytes: JSON text of all its events.
        skipped_events: how many are not known.
        position: its place in the feed.
    """

    head: Head
    version: int
    at_us: int
    events: list[AnyEvent]
    size_bytes: int
    skipped_events: int
    position: FeedPosition

    @property
    def run_id(self) -> str:
        """Whose row it is."""
        return self.head.run_id

    @property
    def tenant(self) -> str:
        """The run's tenant."""
        return self.head.tenant

    @property
    def definition(self) -> str:
        """Name of the run's definition."""
        return self.head.definition

    @property
    def manifest_hash(self) -> str:
        """The version of the definition to which the run is pinned."""
        return self.head.manifest_hash


class Projection(ABC):
    """See the module's docstring.

    Attributes:
        name: lower case, unique in the database.
        revision: grows when the tables, or what is put into them, change: the model is then made anew.
        schema: SQL that makes the tables, and whatever their primary keys need.
        indexes: SQL for further indexes; they are made when the tables are full, which is faster.
        views: SELECTs by name (`report_...`), which become views of that name in the schema `ductor`.
    """

    name: ClassVar[str]
    revision: ClassVar[int]
    schema: ClassVar[str]
    indexes: ClassVar[str] = ""
    views: ClassVar[Mapping[str, str]] = {}

    def apply(self, event: AnyEvent, run: RunRow) -> Iterable[Statement]:  # noqa: ARG002 - for subclasses
        """What an event changes in the tables. Events that are not listed here any more, or not yet, never come."""
        return ()

    async def apply_rows(self, rows: Sequence[RunRow], connection: asyncpg.Connection) -> None:
        """Change the tables by rows in the order of the feed, inside the transaction that `connection` is in."""
        statements = [statement for row in rows for event in row.events for statement in self.apply(event, row)]
        if len(statements) > MAX_STATEMENTS_PER_BATCH:
            raise InvalidProjectionError(
                self.name,
                f"{len(statements)} statements for {len(rows)} rows; the limit is {MAX_STATEMENTS_PER_BATCH}",
            )
        first = 0
        while first < len(statements):  # neighbours with one text go to the server together
            text, last = statements[first].text, first + 1
            while last < len(statements) and statements[last].text == text:
                last += 1
            await connection.executemany(text, [one.arguments for one in statements[first:last]])
            first = last

    async def apply_batch(self, batch: "RowBatch", connection: asyncpg.Connection) -> None:
        """The same by columns and by counts that projections share; the built-in ones work so."""
        await self.apply_rows(batch.rows, connection)


def check_projections(projections: Iterable[Projection]) -> tuple[Projection, ...]:
    """The projections. Raises InvalidProjectionError for one that lacks something, or a name used twice."""
    found: dict[str, Projection] = {}
    views: dict[str, str] = dict.fromkeys(VIEWS_OF_THE_JOURNAL, "the database")
    for projection in projections:
        name = str(getattr(projection, "name", type(projection).__name__))
        for field, kind in (("name", str), ("revision", int), ("schema", str)):
            if not isinstance(getattr(projection, field, None), kind):
                raise InvalidProjectionError(name, f"{type(projection).__name__} needs `{field}`, {kind.__name__}")
        if not NAME_PATTERN.fullmatch(name):
            raise InvalidProjectionError(name, f"a name is {NAME_PATTERN.pattern}")
        if projection.revision < 1:
            raise InvalidProjectionError(name, f"revision is 1 or more, found {projection.revision}")
        if name in found:
            raise InvalidProjectionError(name, "two projections have this name")
        for view in projection.views:
            if not VIEW_PATTERN.fullmatch(view):
                raise InvalidProjectionError(name, f"a view's name is {VIEW_PATTERN.pattern}, found {view!r}")
            if view in views:
                raise InvalidProjectionError(name, f"the view {view!r} is one of {views[view]}; give it another name")
            views[view] = f"the projection {name!r}"
        found[name] = projection
    return tuple(found.values())
