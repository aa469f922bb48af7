"""Exceptions as failures."""

import datetime
from typing import Any

import pytest

from ductor.actors.errors import (
    MAX_RETRY_PAUSE_MS,
    InvalidInputError,
    NonRetryable,
    ResultNotEncodableError,
    RetryAfter,
)
from ductor.actors.failures import error_info, timeout_info
from ductor.journal.events import ErrorInfo


class CardDeclined(NonRetryable):
    pass


class DetailedError(Exception):
    def __init__(self, details: Any) -> None:
        super().__init__("detailed")
        self.details = details


class HostileError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    @property
    def details(self) -> Any:
        raise ValueError("no details")


def test_an_exception_is_named_after_its_class():
    assert error_info(KeyError("sku")) == ErrorInfo(type="KeyError", message="'sku'")


def test_details_come_along_where_they_are_json():
    assert error_info(DetailedError({"at": datetime.date(2026, 1, 2)})).details == {"at": "2026-01-02"}
    assert error_info(DetailedError(print)).details is None
    dropped = error_info(DetailedError(object())).details
    assert isinstance(dropped, dict)
    assert "dropped" in dropped


def test_an_exception_that_misbehaves_is_a_failure_all_the_same():
    info = error_info(HostileError())
    assert (info.type, info.message) == ("HostileError", "(its text could not be made)")
    assert info.details == {"dropped": "ValueError while they were read"}
    assert error_info(ValueError("nul\0 \ud800")).message == "nul\\u0000 \\ud800"


def test_the_handler_decides_about_retries():
    assert error_info(NonRetryable("no", type="Declined", details={"a": 1})) == ErrorInfo(
        type="Declined", message="no", details={"a": 1}, retryable=False
    )
    assert error_info(CardDeclined("no")) == ErrorInfo(type="CardDeclined", message="no", retryable=False)
    assert error_info(RetryAfter(1.5)).retry_after_ms == 1_500
    assert error_info(RetryAfter(datetime.timedelta(minutes=1), "busy", type="Busy")) == ErrorInfo(
        type="Busy", message="busy", retry_after_ms=60_000
    )
    assert RetryAfter(-5).pause_ms == 0
    assert RetryAfter(float("inf")).pause_ms == MAX_RETRY_PAUSE_MS
    assert RetryAfter(float("nan")).pause_ms == 0


@pytest.mark.parametrize(
    ("error", "name", "details"),
    [
        (InvalidInputError("t", "a.b", "odd"), "InvalidInput", {"path": "a.b", "reason": "odd"}),
        (
            ResultNotEncodableError("t", "a", "object", "odd"),
            "ResultNotEncodable",
            {"path": "a", "python_type": "object", "reason": "odd"},
        ),
    ],
)
def test_values_that_do_not_fit_are_never_retried(error: Exception, name: str, details: Any):
    info = error_info(error)
    assert (info.type, info.details, info.retryable) == (name, details, False)
    assert "`t`" in info.message


def test_a_group_of_one_is_that_one_and_a_group_of_several_is_a_group():
    assert error_info(ExceptionGroup("g", [ExceptionGroup("h", [KeyError(1)])])).type == "KeyError"
    several = error_info(ExceptionGroup("g", [KeyError(1), ValueError(2)]))
    assert (several.type, several.retryable) == ("ExceptionGroup", True)
    assert not error_info(ExceptionGroup("g", [KeyError(1), NonRetryable("no")])).retryable


def test_a_timeout_says_which_and_only_the_total_ends_retries():
    info = timeout_info("heartbeat", 500, {"row": 7})
    assert info == ErrorInfo(
        type="Timeout",
        message="the heartbeat timeout of 500 ms is over",
        details={"kind": "heartbeat", "limit_ms": 500, "last_heartbeat": {"row": 7}},
    )
    assert [timeout_info(kind, None, None).retryable for kind in ("start", "attempt", "heartbeat", "total")] == [
        True,
        True,
        True,
        False,
    ]
    assert timeout_info("attempt", 5, object()).type == "Timeout"
