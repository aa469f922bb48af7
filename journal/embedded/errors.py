"""What can go wrong around an embedded server, as one error with fields."""

from typing import ClassVar, Literal

from ductor.definitions.errors import DuctorError

Kind = Literal[
    "no_binaries",
    "unreachable",
    "wrong_version",
    "foreign_directory",
    "port_in_use",
    "disk_full",
    "settings_differ",
    "start_failed",
    "stop_failed",
    "busy",
]


class EmbeddedPostgresError(DuctorError):
    """An embedded server could not be made, started, joined or stopped.

    Fields: `kind` (what sort of trouble, for programs), `directory` (the server's directory), `log` (the last lines the
    server or its tools printed; empty where they had no part in it), `advice` (what to do).
    """

    code: ClassVar[str] = "embedded_postgres"

    def __init__(self, message: str, *, kind: Kind, directory: str, advice: str, log: str = "") -> None:
        self.kind: Kind = kind
        self.directory = directory
        self.log = log
        self.advice = advice
        tail = f"\n{log}" if log else ""
        super().__init__(f"{message} (directory {directory}). {advice}{tail}")
