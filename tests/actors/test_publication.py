"""What is published with a definition: where its expressions stand, so that errors at run time say it."""

from ductor.actors.publication import places_of, publication
from ductor.definitions.compile import compile_text
from ductor.definitions.errors import Place
from ductor.definitions.program import load_program

EVERYWHERE = """
name: everywhere
search_attributes: {id: "${trigger.id}"}
repeat: {until: context.n > 2, max: 3}
lease: {key: "all-${trigger.id}", limit: 1}
on:
  - {event: paid, match: event.payload.id == trigger.id, effects: {heard: "${event.payload}"}}
steps:
  - ref: pick
    type: conditional
    when: context.n > 1
    next: {"true": {choice: [{when: context.n > 2, to: outer}, {to: each}]}}
  - ref: outer
    type: subworkflow
    do:
      steps:
        - ref: inner
          type: subworkflow
          do:
            steps: [{ref: deep, type: transform, value: "${trigger.id}"}]
            output: "${steps.deep.output}"
      output: "${steps.inner.output}"
  - ref: each
    type: scatter
    mode: child_workflow
    items_expr: "[1, 2]"
    do: {type: task, task: work, input: "${item}", compensate: {task: undo, input: "${output.id}"}}
output: "${context}"
"""


class Recording:
    """Places that note for which keys they are asked."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def get(self, key: str, /) -> Place | None:
        """Nothing is known."""
        self.asked.add(key)
        return None


def test_every_place_that_a_program_asks_for_is_published():
    (compiled,) = compile_text(EVERYWHERE, file="everywhere.yaml")
    places = places_of(publication(compiled, tenant="t", source="", now_us=0))
    recording = Recording()
    load_program(compiled.manifest, places=recording)
    assert len(recording.asked) > 10
    known = {key for key in recording.asked if compiled.places.get(key) is not None}
    assert known - places.keys() == set()
    assert places["steps.outer/inner/deep.value"].line == 20
