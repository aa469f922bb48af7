"""The fuzzer's process: `python -m scripts.fuzzing.guided TARGET SECONDS SEED CORPUS`. Needs atheris."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from scripts.fuzzing.crashes import crash_folder, keep_crash

MAX_INPUT_BYTES: Final = 4_096
MAX_SECONDS_PER_INPUT: Final = 20


def main() -> None:
    """Fuzz until the time is over or the target breaks; the process then ends, by itself or by the error."""
    name, seconds, seed, corpus = sys.argv[1:]
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["ductor"]):
        targets = import_module("scripts.fuzzing.targets")
    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-timeout={MAX_SECONDS_PER_INPUT}",
        "-print_final_stats=1",
        "-artifact_prefix=" + corpus + "/",
    ]
    run = keeping_what_breaks(targets.TARGETS[name], crash_folder(name))
    atheris.Setup([sys.argv[0], *options, corpus], run)
    atheris.Fuzz()


def keeping_what_breaks(target: Callable[[bytes], None], folder: Path) -> Callable[[bytes], None]:
    """The target, which writes the input that breaks it into a folder."""

    def run(data: bytes) -> None:
        try:
            target(data)
        except BaseException:
            keep_crash(folder, data)
            raise

    return run


if __name__ == "__main__":
    main()
