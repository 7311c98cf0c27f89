"""Where the reference material is: tables written by Java, and the driver of the Java library.

It is not part of the project. Tests that need it look into the folder named by the environment variable
`PAIMON_REFERENCE`, else into `shared` next to the project's folder, and skip where there is none.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CACHE = PROJECT / ".cache"
"""Everything that tests download or build stays below the project's folder."""

VARIABLE = "PAIMON_REFERENCE"
PARTS = ("corpus", "oracle")


def reference_part(name: str) -> Path | None:
    """The folder `corpus` or `oracle`; None where it is missing."""
    assert name in PARTS
    named = os.environ.get(VARIABLE)
    folder = (Path(named) if named else PROJECT.parent / "shared") / name
    return folder if folder.is_dir() else None


def reference_folder(name: str) -> Path:
    """The folder `corpus` or `oracle`; skips the test where it is missing."""
    folder = reference_part(name)
    if folder is None:
        pytest.skip(missing(name))
    return folder


def missing(name: str) -> str:
    """Why a test is skipped that needs that part."""
    return f"no {name} of the Java reference: set {VARIABLE} to the folder that holds it"
