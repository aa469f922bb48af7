"""Runs tests with one mutant planted: `python -m scripts.mutation.planting MODULE FILE NUMBER TEST...`.

The module is compiled from its changed tree when it is imported; no file is touched. A number that is negative plants
nothing, to see that the tests pass then.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from scripts.mutation.mutants import mutated


class PlantedModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and loads it with a fault in it."""

    def __init__(self, module: str, file: Path, number: int) -> None:
        self._module, self._file, self._number = module, file, number

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own place, with this loader; None for all others."""
        del path, target
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, self._file, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        tree = mutated(self._file.read_text(), self._number)
        exec(compile(tree, str(self._file), "exec"), module.__dict__)  # noqa: S102 - our own source


def main() -> int:
    """The exit code of pytest."""
    module, file, number, *tests = sys.argv[1:]
    if int(number) >= 0:
        sys.meta_path.insert(0, PlantedModule(module, Path(file), int(number)))
    # Plain assertions: what rewrites them would load the module by itself, without the fault.
    options = ["-q", "-x", "--no-header", "--assert=plain", "-p", "no:cacheprovider", "--timeout", "60"]
    return pytest.main([*options, *tests])


if __name__ == "__main__":
    sys.exit(main())
