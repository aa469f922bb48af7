"""Fields of log lines that are about runs: one name for each thing, wherever the line is written."""

from ductor.journal.ids import run_of_token
from ductor.journal.state import RunState

LogFields = dict[str, object]


def run_fields(run_id: str, state: RunState | None = None) -> LogFields:
    """Of a line about a run; `state` where it is at hand."""
    fields: LogFields = {"run_id": run_id}
    if state is not None and state.definition:
        fields |= {"tenant": state.tenant, "definition": state.definition, "version": state.version}
    return fields


def attempt_fields(token: str) -> LogFields:
    """Of a line about an attempt, which its token names."""
    step, _, generation = token.partition("/")[2].rpartition("/")
    return {"run_id": run_of_token(token), "step": step, "generation": int(generation), "token": token}
