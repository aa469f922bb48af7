"""How queues serve tenants, read from a file, so that operators set it without a program."""

from pathlib import Path

import msgspec

from ductor.actors.errors import InvalidSettingError
from ductor.actors.queue.policies import QueuePolicies

MAX_FILE_BYTES = 1024 * 1024


def read_queue_policies(path: Path) -> QueuePolicies:
    """The policies of a YAML or JSON file: `queues`, by name, and `tenants`, as `QueuePolicies` has them.

    Raises InvalidSettingError with the name of the file and the place in it.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidSettingError(f"the file of queue policies {path}", f"can't be read: {error.strerror}") from error
    if len(text) > MAX_FILE_BYTES:
        raise InvalidSettingError(f"the file of queue policies {path}", f"has more than {MAX_FILE_BYTES} bytes")
    try:
        return msgspec.yaml.decode(text, type=QueuePolicies)
    except msgspec.MsgspecError as error:
        raise InvalidSettingError(f"the file of queue policies {path}", f"is not valid: {error}") from error
