"""What readers of Iceberg see of a table's metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro

Rows = list[dict[str, Any]]


def version(metadata: Path) -> int:
    """The version that the hint names."""
    return int((metadata / "version-hint.text").read_text())


def document(metadata: Path) -> dict[str, Any]:
    """The current metadata."""
    return json.loads((metadata / f"v{version(metadata)}.metadata.json").read_text())


def manifests(metadata: Path, of: int | None = None) -> list[dict[str, Any]]:
    """The manifests of a snapshot, by default of the current one."""
    current = document(metadata)
    wanted = of or current["current-snapshot-id"]
    (one,) = [item for item in current["snapshots"] if item["snapshot-id"] == wanted]
    return _avro(metadata / one["manifest-list"].rpartition("/")[2])


def live_files(metadata: Path, of: int | None = None) -> dict[str, tuple[Any, ...]]:
    """What is said of each live data file, and of each deletion vector by its data file, by name."""
    found = {}
    for manifest in manifests(metadata, of):
        for entry in _avro(metadata / manifest["manifest_path"].rpartition("/")[2]):
            if entry["status"] == 2:
                continue
            file = entry["data_file"]
            name = file["file_path"].rpartition("/")[2]
            referenced = file["referenced_data_file"]
            key = name if referenced is None else f"vector of {referenced.rpartition('/')[2]}"
            bounds = [
                {item["key"]: item["value"] for item in file[kind] or ()}
                for kind in ("null_value_counts", "lower_bounds", "upper_bounds")
            ]
            place = (file["content_offset"], file["content_size_in_bytes"])
            found[key] = (file["partition"], file["record_count"], file["file_format"], *bounds, *place)
    return found


def names(metadata: Path) -> set[str]:
    """All files that any snapshot of the current metadata needs, and those that are there: equal, if nothing is left."""
    needed = {f"v{version(metadata)}.metadata.json", "version-hint.text"}
    for one in document(metadata)["snapshots"]:
        needed.add(one["manifest-list"].rpartition("/")[2])
        needed |= {item["manifest_path"].rpartition("/")[2] for item in manifests(metadata, one["snapshot-id"])}
    return needed


def rows(metadata: Path, **scan: Any) -> Rows:
    """The rows as pyiceberg reads them, sorted."""
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(metadata / f"v{version(metadata)}.metadata.json"))
    return in_order(table.scan(**scan).to_arrow().to_pylist())


def in_order(found: Rows) -> Rows:
    """The rows in an order that any engine's have."""
    return sorted(found, key=str)


def _avro(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))
