"""Runs that the tick's driver has made, as recorded runs."""

import textwrap

from ductor.actors.publication import publication
from ductor.actors.recorded_programs import RunPrograms
from ductor.definitions.compile import compile_text
from ductor.journal.recorded import RecordedRun
from ductor.journal.records import Head, PublishedDefinition
from tests.actors.tick.driver import Driver


def definition_of(text: str) -> PublishedDefinition:
    """A stored definition; name and language version are given."""
    (compiled,) = compile_text(f"ductor: 1\nname: subject\n{textwrap.dedent(text)}", file="subject.yaml")
    return publication(compiled, tenant="t", source=text, now_us=0)


def programs_of(text: str) -> RunPrograms:
    """The programs of a definition."""
    return RunPrograms.load(definition_of(text))


def recorded(driver: Driver, text: str) -> RecordedRun:
    """The driver's run, carried out by the definition `text`."""
    state, definition = driver.state, definition_of(text)
    head = Head(
        run_id=state.run_id,
        tenant=state.tenant,
        definition=definition.name,
        manifest_hash=state.manifest_hash,
        status=state.status,
        started_at_us=state.started_at_us,
        updated_at_us=state.at_us,
        ended_at_us=state.ended_at_us or None,
        error_type=None if state.error is None else state.error.type,
    )
    assert definition.manifest_hash == state.manifest_hash
    return RecordedRun(head=head, definition=definition, rows=list(driver.rows))
