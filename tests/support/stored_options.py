"""Options in a table's schema that no check of this engine has seen."""

from __future__ import annotations

import json
from pathlib import Path

from paimon_engine import Table, open_table


def with_stored_options(table: Table, options: dict[str, str]) -> Table:
    """The table, opened again, with `options` in its first schema as another engine stores them."""
    path = Path(table.path, "schema", "schema-0")
    schema = json.loads(path.read_text())
    schema["options"] |= options
    path.write_text(json.dumps(schema))
    return open_table(table.path)
