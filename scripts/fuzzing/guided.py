"""The fuzzer's process: `python -m scripts.fuzzing.guided TARGET SECONDS SEED CORPUS WORDS`. Needs atheris."""

import random
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from scripts.fuzzing.crashes import crash_folder, keep_crash
from scripts.fuzzing.json_damage import damaged_json

MAX_INPUT_BYTES: Final = 16_384
MAX_SECONDS_PER_INPUT: Final = 20
PLAIN_SHARE: Final = 0.2
"""How often JSON is damaged byte by byte."""


def main() -> None:
    """Fuzz until the time is over or the target breaks; the process then ends, by itself or by the error."""
    name, seconds, seed, corpus, words = sys.argv[1:]
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["ductor"]):
        targets = import_module("scripts.fuzzing.targets")
    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-timeout={MAX_SECONDS_PER_INPUT}",
        f"-dict={words}",
        "-keep_seed=1",  # also those that run no line which another one does not: what decodes JSON has no lines
        "-print_final_stats=1",
        "-artifact_prefix=" + corpus + "/",
    ]
    run = keeping_what_breaks(targets.TARGETS[name], crash_folder(name))

    def as_bytes(data: bytes, max_size: int) -> bytes:
        changed: bytes = atheris.Mutate(data, max_size)  # another function since the fuzzing has begun
        return changed

    mutate = json_mutator(as_bytes) if name in targets.JSON_TARGETS else None
    atheris.Setup([sys.argv[0], *options, corpus], run, custom_mutator=mutate)
    atheris.Fuzz()


def json_mutator(mutate: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
    """What damages input as JSON, where that fits into the size it may have, and now and then as any other bytes."""

    def run(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)  # noqa: S311 - chance that can be repeated
        damaged = None if chance.random() < PLAIN_SHARE else damaged_json(data, chance)
        return mutate(data, max_size) if damaged is None or len(damaged) > max_size else damaged

    return run


def keeping_what_breaks(target: Callable[[bytes], bool], folder: Path) -> Callable[[bytes], None]:
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
