"""Errors of the actors."""

from collections.abc import Sequence
from datetime import timedelta

from ductor.definitions.errors import DuctorError, Problem

MAX_STEPS_NAMED = 10
"""Steps that a message names; it counts the others."""


class ActorError(DuctorError):
    """Base of the actors' errors."""

    code = "actor"


class InvalidSettingError(ActorError):
    """A setting of a host, a worker or their queue is not acceptable. Nothing was started.

    Attributes:
        setting: its name.
        reason: what is wrong, and what would be right.
    """

    code = "invalid_setting"

    def __init__(self, setting: str, reason: str) -> None:
        self.setting, self.reason = setting, reason
        super().__init__(f"{setting} {reason}")


class InvalidTaskError(ActorError):
    """A handler can't be a task. Raised where it is declared or registered, never while a run waits for it.

    Attributes:
        task: its name.
        parameter: the parameter at fault, empty for the handler as a whole.
        reason: what is wrong.
    """

    code = "invalid_task"

    def __init__(self, task: str, parameter: str, reason: str) -> None:
        self.task, self.parameter, self.reason = task, parameter, reason
        where = f", parameter `{parameter}`" if parameter else ""
        super().__init__(f"task `{task}`{where}: {reason}")


class DuplicateTaskError(ActorError):
    """Two different handlers have one name.

    Attributes:
        task: the name.
        handlers: module and name of both.
    """

    code = "duplicate_task"

    def __init__(self, task: str, handlers: tuple[str, str]) -> None:
        self.task, self.handlers = task, handlers
        super().__init__(f"task `{task}` is {handlers[0]} and {handlers[1]}: give one of them another name")


class InvalidInputError(ActorError):
    """The input of an attempt does not fit its handler. No retry can mend it.

    Attributes:
        task: the handler's name.
        path: where in the input, as `lines[2].sku`; empty for the input as a whole.
        reason: what is wrong there.
    """

    code = "invalid_input"

    def __init__(self, task: str, path: str, reason: str) -> None:
        self.task, self.path, self.reason = task, path, reason
        super().__init__(f"input of task `{task}`: {path + ': ' if path else ''}{reason}")


class ResultNotEncodableError(ActorError):
    """What a handler returned can't be JSON. No retry can mend it.

    Attributes:
        task: the handler's name.
        path: where in the result; empty for the result as a whole.
        python_type: the type found there.
        reason: why it can't be stored.
    """

    code = "result_not_encodable"

    def __init__(self, task: str, path: str, python_type: str, reason: str) -> None:
        self.task, self.path, self.python_type, self.reason = task, path, python_type, reason
        where = f"{path} ({python_type})" if path else python_type
        super().__init__(f"result of task `{task}`: {where}: {reason}")


class NonRetryable(DuctorError):
    """Raised by a handler: the attempt failed, and no retry would help.

    Attributes:
        error_type: what retry policies and choices match on; the class name unless given.
        details: JSON for programs.
    """

    code = "non_retryable"

    def __init__(self, message: str = "", *, type: str | None = None, details: object = None) -> None:
        self.error_type, self.details = type, details
        super().__init__(message)


MAX_RETRY_PAUSE_MS = 365 * 86_400_000


class RetryAfter(DuctorError):
    """Raised by a handler: the attempt failed, and the next one should wait this long, whatever the policy says.

    Attributes:
        pause_ms: the pause, between 0 and `MAX_RETRY_PAUSE_MS`; what is asked beyond these is brought within.
        error_type: what retry policies and choices match on; the class name unless given.
        details: JSON for programs.
    """

    code = "retry_after"

    def __init__(
        self,
        pause: float | timedelta,
        message: str = "",
        *,
        type: str | None = None,
        details: object = None,
    ) -> None:
        """Args: `pause` is a number of seconds, or a timedelta."""
        seconds = pause.total_seconds() if isinstance(pause, timedelta) else pause
        self.pause_ms = round(min(max(0, seconds * 1_000), MAX_RETRY_PAUSE_MS))
        self.error_type, self.details = type, details
        super().__init__(message or f"to be tried again after {self.pause_ms} ms")


class StartRefusedError(ActorError):
    """A run can't be started as asked. Nothing was written.

    Attributes:
        what: the part of the request that is refused.
        reason: why.
    """

    code = "start_refused"

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(f"the run was not started: {what}: {reason}")


class DefinitionNotFoundError(ActorError):
    """No published definition fits the request.

    Attributes:
        tenant, name: what was asked for.
        version, manifest_hash: narrower, None for the newest.
        nearest: a published name that is close, empty for none.
    """

    code = "definition_not_found"

    def __init__(
        self, tenant: str, name: str, *, version: str | None = None, manifest_hash: str | None = None, nearest: str = ""
    ) -> None:
        self.tenant, self.name, self.version, self.manifest_hash, self.nearest = (
            tenant,
            name,
            version,
            manifest_hash,
            nearest,
        )
        which = f" with version {version!r}" if version else f" with hash {manifest_hash}" if manifest_hash else ""
        hint = f"; did you mean {nearest!r}?" if nearest else "; publish it first (`ductor publish FILE`)"
        super().__init__(f"tenant {tenant!r} has no published definition {name!r}{which}{hint}")


class ManifestMissingError(ActorError):
    """A run is pinned to a manifest that the database does not have.

    Attributes:
        manifest_hash: which one.
    """

    code = "manifest_missing"

    def __init__(self, manifest_hash: str) -> None:
        self.manifest_hash = manifest_hash
        super().__init__(f"the database holds no manifest {manifest_hash}: publish the definition it came from again")


class RunNotFoundError(ActorError):
    """There is no such run, or it is another tenant's.

    Attributes:
        run_id: what was asked for.
    """

    code = "run_not_found"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run {run_id!r}; `ductor runs` lists the runs of your tenant")


class ControlRefusedError(ActorError):
    """A control could not be accepted, as when the run has ended.

    Attributes:
        run_id, kind: the request.
        reason: why.
    """

    code = "control_refused"

    def __init__(self, run_id: str, kind: str, reason: str) -> None:
        self.run_id, self.kind, self.reason = run_id, kind, reason
        super().__init__(f"run {run_id}: {kind} refused: {reason}")


class BulkControlRefusedError(ActorError):
    """A bulk control was not accepted, because too many of the tenant are under way. Nothing was stored.

    Attributes:
        tenant, kind: the request.
        limit: bulk controls of a tenant that may be unfinished.
    """

    code = "bulk_control_refused"

    def __init__(self, tenant: str, kind: str, limit: int) -> None:
        self.tenant, self.kind, self.limit = tenant, kind, limit
        super().__init__(
            f"tenant {tenant!r}: {kind} of many runs refused: {limit} bulk controls are not finished; ask again later"
        )


class MessageRefusedError(ActorError):
    """A message to a run was not accepted. Nothing was stored.

    Attributes:
        run_id: whom it was for.
        reason: why.
        problems: everything that does not fit, for a reply to an interaction.
    """

    code = "message_refused"

    def __init__(self, run_id: str, reason: str, problems: Sequence[str] = ()) -> None:
        self.run_id, self.reason, self.problems = run_id, reason, tuple(problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"run {run_id}: {reason}{lines}")


class WaitTimeoutError(ActorError):
    """A run did not end in the time that somebody was ready to wait. The run goes on.

    Attributes:
        run_id: which run.
        timeout_ms: the time.
    """

    code = "wait_timeout"

    def __init__(self, run_id: str, timeout_ms: int) -> None:
        self.run_id, self.timeout_ms = run_id, timeout_ms
        super().__init__(f"run {run_id} did not end within {timeout_ms} ms; it goes on")


class HostStoppedError(ActorError):
    """The host has been stopped, or was never started."""

    code = "host_stopped"

    def __init__(self) -> None:
        super().__init__("the host is not running: use it inside `async with`, or call `start` first")


class UnsupportedDefinitionError(ActorError):
    """A definition compiles, but uses what this version can't run. It was not published.

    Attributes:
        name: of the definition.
        problems: one for each use, with its place.
    """

    code = "unsupported_definition"

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.name, self.problems = name, tuple(problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"definition {name!r} was not published:\n{lines}")


class ImportRefusedError(ActorError):
    """An export file can't be imported as it is. Nothing was written.

    Attributes:
        file: its name.
        problems: why, run by run.
    """

    code = "import_refused"

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        self.file, self.problems = file, tuple(problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{file} was not imported:{lines}")


class AttemptNotRecordedError(ActorError):
    """A step of a recorded run has no such attempt.

    Attributes:
        run_id, step: which.
        generation: which attempt was wanted; None for the last one.
        attempts: how many of the step are on record.
        steps: those that have attempts on record.
    """

    code = "attempt_not_recorded"

    def __init__(
        self, run_id: str, step: str, generation: int | None, attempts: int, steps: Sequence[str] = ()
    ) -> None:
        self.run_id, self.step, self.generation, self.attempts = run_id, step, generation, attempts
        self.steps = tuple(steps)
        if attempts:
            why = f"step {step!r} has no record of attempt {generation}; {attempts} are on record"
        elif steps:
            more = f" and {len(steps) - MAX_STEPS_NAMED} more" if len(steps) > MAX_STEPS_NAMED else ""
            why = f"step {step!r} has no attempts; these have: {', '.join(steps[:MAX_STEPS_NAMED])}{more}"
        else:
            why = f"step {step!r} has no attempts, and no other step has any"
        super().__init__(f"run {run_id}: {why}")


class HandlerMissingError(ActorError):
    """None of the tasks at hand is the handler that a recorded attempt was for.

    Attributes:
        task: its name.
        known: names of the tasks at hand.
    """

    code = "handler_missing"

    def __init__(self, task: str, known: Sequence[str]) -> None:
        self.task, self.known = task, tuple(known)
        have = f" among {', '.join(self.known)}" if self.known else ""
        super().__init__(f"there is no handler {task!r}{have}; name the module that has it with `--tasks`")


class NotAScatterError(ActorError):
    """Children were asked for of a step that has none.

    Attributes:
        run_id, step: which.
    """

    code = "not_a_scatter"

    def __init__(self, run_id: str, step: str) -> None:
        self.run_id, self.step = run_id, step
        super().__init__(f"run {run_id}: there is no scatter {step!r}; `ductor show` lists the run's steps")


class RunStalledError(ActorError):
    """A run is `running`, and neither its attempts nor anything else that it waits for can be found.

    Attributes:
        run_id: which.
        version: the transition since which nothing has happened.
        wakes: how often it was looked at, and its attempts issued again, in vain.
    """

    code = "run_stalled"

    def __init__(self, run_id: str, version: int, wakes: int) -> None:
        self.run_id, self.version, self.wakes = run_id, version, wakes
        super().__init__(
            f"run {run_id} stands at transition {version} although it was looked at {wakes} times: see its history and "
            f"the logs of its hosts, then `ductor release {run_id}`"
        )


class AttemptLostError(ActorError):
    """An attempt was lost too often with hosts that died, or were stopped, while they had it: its run is set aside.

    Attributes:
        run_id, step, task: the run, the step in it, and the handler that was called.
        token: the attempt.
        losses: how often it was lost since the run was released last.
    """

    code = "attempt_lost"

    def __init__(self, run_id: str, step: str, task: str, token: str, losses: int) -> None:
        self.run_id, self.step, self.task, self.token, self.losses = run_id, step, task, token, losses
        super().__init__(
            f"run {run_id}: attempt {token} of step {step} was lost {losses} times with the host that had it: see "
            f"whether its handler {task!r} ends the process (a signal, memory, a crash); `ductor release {run_id}` has "
            f"it tried again, or, after `ductor cancel {run_id}`, ends the run"
        )
