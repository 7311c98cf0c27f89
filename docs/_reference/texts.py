"""Texts of the repository that are pages here as well."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PROJECT: Final = Path(__file__).parents[2]


def changelog() -> str:
    """The list of changes; its links into this folder lose the folder's name."""
    return _read("CHANGELOG.md").replace("](docs/", "](")


def architecture() -> str:
    """How the engine is built."""
    return _read("paimon_engine/ARCHITECTURE.md")


def _read(path: str) -> str:
    """The text without its heading, which the page has already."""
    return (_PROJECT / path).read_text(encoding="utf-8").partition("\n")[2]
