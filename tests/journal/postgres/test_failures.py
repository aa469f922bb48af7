"""What an exception means for what was sent."""

import asyncio

import asyncpg
import pytest

from ductor.journal.postgres.failures import Failure, classify, refused_field, unavailable


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (asyncpg.LockNotAvailableError("held"), "lock"),
        (asyncpg.DeadlockDetectedError("deadlock"), "again"),
        (asyncpg.SerializationError("retry"), "again"),
        (asyncpg.InvalidTextRepresentationError("no json"), "content"),
        (asyncpg.CharacterNotInRepertoireError("NUL"), "content"),
        (asyncpg.CheckViolationError("check"), "content"),
        (asyncpg.ProgramLimitExceededError("index row too large"), "content"),
        (OverflowError("int too large"), "content"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogate"), "content"),
        (asyncpg.InvalidSQLStatementNameError("gone"), "stale"),
        (asyncpg.FeatureNotSupportedError("cached plan must not change result type"), "stale"),
        (asyncpg.ConnectionDoesNotExistError("lost"), "unavailable"),
        (asyncpg.AdminShutdownError("restart"), "unavailable"),
        (asyncpg.CannotConnectNowError("starting up"), "unavailable"),
        (asyncpg.TooManyConnectionsError("full"), "unavailable"),
        (asyncpg.DiskFullError("full"), "unavailable"),
        (asyncpg.ReadOnlySQLTransactionError("standby"), "unavailable"),
        (asyncpg.QueryCanceledError("timeout"), "unavailable"),
        (asyncpg.UndefinedTableError("no schema"), "unavailable"),
        (asyncpg.InterfaceError("connection is closed"), "unavailable"),
        (ConnectionResetError("reset"), "unavailable"),
        (TimeoutError(), "unavailable"),
        (asyncio.IncompleteReadError(b"", 1), "unavailable"),
    ],
)
def test_failures(error: Exception, failure: Failure) -> None:
    assert classify(error) == failure


def test_a_start_that_lost_in_mid_statement_is_sent_again() -> None:
    error = asyncpg.PostgresError("lost")
    error.sqlstate = "DU001"  # type: ignore[misc]
    assert classify(error) == "again"


def test_the_refused_field_is_found_by_column_constraint_or_parameter() -> None:
    by_column = asyncpg.NotNullViolationError("null")
    by_column.column_name = "tenant"
    assert refused_field(by_column, ()) == "tenant"
    by_constraint = asyncpg.CheckViolationError("check")
    by_constraint.table_name, by_constraint.constraint_name = "eec_workflow_run", "eec_workflow_run_key"
    assert refused_field(by_constraint, ()) == "key"
    by_parameter = asyncpg.DataError("invalid input for query argument $2: 'x'")
    assert refused_field(by_parameter, ("row_run_id", "row_at_us")) == "at_us"
    by_context = asyncpg.InvalidTextRepresentationError("no json")
    by_context.context = "unnamed portal parameter $1"
    assert refused_field(by_context, ("row_events",)) == "events"
    assert refused_field(asyncpg.DataError("who knows"), ("row_events",)) == ""
    assert refused_field(asyncpg.DataError("argument $9"), ("row_events",)) == ""


def test_unavailable_keeps_the_drivers_words() -> None:
    assert unavailable(ConnectionRefusedError("refused")).reason == "ConnectionRefusedError: refused"
    assert unavailable(TimeoutError()).reason == "TimeoutError"
    refused = asyncpg.CannotConnectNowError("not yet accepting connections")
    refused.detail = "Consistent recovery state has not been reached."
    assert "\n" in str(refused), "the driver gives details in lines of their own"
    assert "\n" not in str(unavailable(refused)), "an error is one line of a log"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ConnectionRefusedError("refused"), "check that it runs and that its address is right"),
        (asyncpg.InsufficientPrivilegeError("permission denied for schema ductor"), "must own the schema `ductor`"),
        (asyncpg.InvalidPasswordError("no"), "check user and password"),
        (asyncpg.InvalidCatalogNameError('database "x" does not exist'), "create it"),
        (asyncpg.TooManyConnectionsError("too many clients"), "fewer processes"),
        (asyncpg.ReadOnlySQLTransactionError("read-only"), "name the primary"),
        (asyncpg.ClientConfigurationError("invalid DSN"), "postgresql://user:password@host:5432/database"),
        (OverflowError("port must be 0-65535"), "postgresql://user:password@host:5432/database"),
    ],
)
def test_what_to_do_depends_on_what_the_database_says(error: Exception, advice: str) -> None:
    assert advice in str(unavailable(error))
