"""Pages of the reference, written from the code itself while the documentation is built.

A page includes one by a line `<!-- generated: NAME -->`; what is said there comes from specs, docstrings and options,
so that it cannot differ from what is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from _reference.actions import actions
from _reference.commands import commands
from _reference.features import features, readers
from _reference.operators import operators
from _reference.options import options, other_options
from _reference.python_api import catalogs, errors, other_types, results, schema_changes, specs, tables
from _reference.texts import architecture, changelog
from paimon_engine.jobs import job_schema

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "actions": actions,
    "architecture": architecture,
    "catalogs": catalogs,
    "changelog": changelog,
    "commands": commands,
    "errors": errors,
    "features": features,
    "operators": operators,
    "options": options,
    "other options": other_options,
    "other types": other_types,
    "readers": readers,
    "results": results,
    "schema changes": schema_changes,
    "specs": specs,
    "tables": tables,
}
_MARK: Final = re.compile(r"^<!-- generated: ([a-z ]+) -->$", re.MULTILINE)


def _fill_in(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = _MARK.sub(lambda found: PAGES[found[1]](), source[0])


def _write_schema(app: Any) -> None:
    # A page offers it for download, so that it must be there while pages are read; git ignores it.
    Path(app.srcdir, "job.schema.json").write_text(json.dumps(job_schema(), indent=2) + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("builder-inited", _write_schema)
    app.connect("source-read", _fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
