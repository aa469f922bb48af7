"""Fuzzes one target: `python -m scripts.fuzzing TARGET --seconds N`; see `scripts/fuzz`.

The fuzzer ends its process in its own way, so it has one of its own (`scripts.fuzzing.guided`), and this one makes the
folder of inputs that it works in, and removes it.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from scripts.fuzzing.crashes import crash_folder
from scripts.fuzzing.seeds import seeds, words
from scripts.fuzzing.targets import TARGETS

DEFAULT_SECONDS: Final = 60
GRACE_SECONDS: Final = 600
"""How much longer than told the fuzzer may take: it instruments all modules and reads all seeds first."""


def main() -> int:
    """Fuzz; the exit code is 1 where the target broke, and the input that did it is kept."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Coverage-guided fuzzing.")
    parser.add_argument("target", nargs="?", choices=list(TARGETS), help="what is fuzzed")
    parser.add_argument("--seconds", type=int, default=DEFAULT_SECONDS, help=f"default: {DEFAULT_SECONDS}")
    parser.add_argument("--seed", type=int, default=1, help="of chance; default: 1")
    parser.add_argument("--list", action="store_true", help="name the targets, and end")
    arguments = parser.parse_args()
    if arguments.list or arguments.target is None:
        print("\n".join(f"{name:16} {(run.__doc__ or '').splitlines()[0]}" for name, run in TARGETS.items()))
        return 0 if arguments.list else 2
    if find_spec("atheris") is None:
        print(
            "scripts/fuzz: atheris is not installed, the extra `fuzz` brings it: pip install -e '.[fuzz]'",
            file=sys.stderr,
        )
        return 2
    return fuzz(arguments.target, seconds=arguments.seconds, seed=arguments.seed)


def fuzz(name: str, *, seconds: int, seed: int) -> int:
    """Fuzz one target; 0 where it held, else 1."""
    good = list(seeds(name))
    with tempfile.TemporaryDirectory(prefix="ductor-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for seed_input in good:
            (corpus / hashlib.sha256(seed_input).hexdigest()).write_bytes(seed_input)
        dictionary = Path(folder) / "words.txt"
        dictionary.write_text("".join(f'"{word.decode()}"\n' for word in words(good)))
        options = [name, str(seconds), str(seed), str(corpus), str(dictionary)]
        command = [sys.executable, "-m", "scripts.fuzzing.guided", *options]
        ended = subprocess.run(command, check=False, timeout=seconds + GRACE_SECONDS)
    if ended.returncode != 0:
        print(f"scripts/fuzz: {name} broke; the input is in {crash_folder(name)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
