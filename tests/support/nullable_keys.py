"""Tables of Java 2.0 whose keys may be null, as those of the release that has `primary-key.nullable`."""

from __future__ import annotations

import json
from pathlib import Path


def allow_null_keys(table: Path) -> None:
    """Takes NOT NULL from the key columns of the newest schema, to which Java 2.0 adds it, but then takes nulls."""
    path = max((table / "schema").glob("schema-*"), key=lambda one: int(one.name.removeprefix("schema-")))
    schema = json.loads(path.read_text("utf-8"))
    for field in schema["fields"]:
        if field["name"] in schema["primaryKeys"]:
            field["type"] = field["type"].removesuffix(" NOT NULL")
    path.write_text(json.dumps(schema), encoding="utf-8")
