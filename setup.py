"""Lists the packages of the distribution.

The rooms are top-level folders of the checkout (`definitions/`, `journal/`, ...) and subpackages of `ductor` once
installed (`ductor.definitions`, ...). Everything else is in pyproject.toml; only this listing needs code, because
setuptools can't find packages below more than one mapped folder by itself.
"""

from setuptools import find_namespace_packages, setup

PACKAGE_FOLDERS = {
    "ductor": "ductor",
    "ductor.actors": "actors",
    "ductor.definitions": "definitions",
    "ductor.journal": "journal",
    "ductor.projections": "projections",
}


def list_packages() -> list[str]:
    """Return every package of the distribution: the face, the rooms and all their subfolders."""
    packages: list[str] = []
    for package, folder in PACKAGE_FOLDERS.items():
        packages.append(package)
        subfolders = find_namespace_packages(folder, exclude=["__pycache__", "*.__pycache__"])
        packages.extend(f"{package}.{subfolder}" for subfolder in subfolders)
    return packages


setup(packages=list_packages(), package_dir=PACKAGE_FOLDERS)
