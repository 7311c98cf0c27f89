"""Pages of the reference, written from the code itself while the documentation is built.

A page asks for one by a line `<!-- generated: NAME -->`; what is said there comes from specs, docstrings and options,
so that it cannot differ from what is installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from _reference.actions import actions
from _reference.commands import commands
from _reference.operators import operators
from _reference.options import options, other_options
from _reference.python_api import catalogs, errors, schema_changes, tables
from _reference.texts import architecture, changelog

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "actions": actions,
    "architecture": architecture,
    "catalogs": catalogs,
    "changelog": changelog,
    "commands": commands,
    "errors": errors,
    "operators": operators,
    "options": options,
    "other options": other_options,
    "schema changes": schema_changes,
    "tables": tables,
}
_MARK: Final = re.compile(r"^<!-- generated: ([a-z ]+) -->$", re.MULTILINE)


def _fill_in(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = _MARK.sub(lambda found: PAGES[found[1]](), source[0])


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("source-read", _fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
