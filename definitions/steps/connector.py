"""`connector`: an operation of a provider in the connector catalog."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from ductor.definitions.fields import Name
from ductor.definitions.steps.step import CompiledField, WorkerStep
from ductor.definitions.values import JsonValue


class ConnectorStep(WorkerStep, tag="connector", frozen=True, kw_only=True):
    """Calls `operation` of `connector` in a worker.

    Attributes:
        params: template of the operation's parameters.
    """

    type_name: ClassVar[str] = "connector"

    connector: Name
    operation: Name
    params: JsonValue = msgspec.field(default_factory=dict)

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `params`."""
        yield from super().compiled_fields()
        yield CompiledField("params", "template", self.params)
