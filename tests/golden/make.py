"""Makes the golden tables: has Java write the corpus' small tables again and read them back, and packs all of it.

    python -m tests.golden.make

needs the Java reference (see tests/support/reference.py). The archive is what tests fall back to without it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.support.canonical import text_of
from tests.support.golden import ARCHIVE
from tests.support.oracle import JavaPaimon, start_oracle
from tests.support.reference import CACHE, reference_part

BYTES_MAX = 8 << 20
COPIED_BYTES_MAX = 1 << 20
COPIED = ("case", "features", "options", "schema_ids", "unordered_columns")


def make(oracle: JavaPaimon, corpus: Path, folder: Path) -> list[dict[str, Any]]:
    """Tables and expectations below `folder`, one folder a case; gives the lines of the index."""
    index = []
    for line in json.loads((corpus / "index.json").read_text(encoding="utf-8"))["cases"]:
        name = line["case"]
        steps = json.loads((corpus / name / "create.json").read_text(encoding="utf-8"))["steps"]
        expected = json.loads((corpus / name / "expected.json").read_text(encoding="utf-8"))
        if any("rows_omitted" in step for step in steps):
            # The corpus does not list the rows of its largest tables, so that they cannot be written again.
            if _bytes_of(corpus / name / "table") > COPIED_BYTES_MAX:
                continue
            shutil.copytree(corpus / name / "table", folder / name / "table", copy_function=shutil.copyfile)
        else:
            for step in steps:
                oracle.run(folder / name / "table", [_renamed(oracle, step, corpus / name / "table", folder / name)])
        made = {key: expected[key] for key in COPIED if key in expected}
        made["reads"] = [_read(oracle, folder / name / "table", one["at"]) for one in _repeatable(expected["reads"])]
        (folder / name / "expected.json").write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
        index.append({"case": name, "features": line["features"]})
    return index


def _renamed(oracle: JavaPaimon, step: dict[str, Any], known: Path, made: Path) -> dict[str, Any]:
    """A step that names files, with the names of the same files in the table that is being made."""
    if step["op"] != "delete_positions":
        return step
    snapshot = max(int(path.name.rsplit("-", 1)[1]) for path in (made / "table" / "snapshot").glob("snapshot-*"))
    tables = ({"table": str(known), "snapshot": snapshot}, {"table": str(made / "table")})
    files = (oracle.call("files", **at)["files"] for at in tables)
    old, new = (sorted(some, key=lambda one: text_of([one["partition"], one["value_stats"]])) for some in files)
    names = {one["file"]: other["file"] for one, other in zip(old, new, strict=True)}
    return {**step, "positions": {names[name]: rows for name, rows in step["positions"].items()}}


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _repeatable(reads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reads that do not hang on the time at which the table was written."""
    return [one for one in reads if "timestamp" not in one["at"]]


def _read(oracle: JavaPaimon, path: Path, at: dict[str, Any]) -> dict[str, Any]:
    more = {"execute_filter": True} if "filter" in at else {}
    answer = oracle.call("read", table=str(path), **at, **more)
    rows = sorted(answer["rows"], key=text_of)
    digest = hashlib.sha256("".join(text_of(row) + "\n" for row in rows).encode()).hexdigest()
    return {"at": at, "columns": answer["columns"], "row_count": len(rows), "sha256": digest, "rows": rows}


def pack(folder: Path, archive: Path) -> None:
    """The folder as an archive, whose bytes depend on names and contents only."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(archive, "w:xz", preset=9) as out:
        for path in sorted(folder.rglob("*")):
            # Checksums of Hadoop's local file system; nothing reads them.
            if path.is_file() and not path.name.endswith(".crc"):
                out.add(path, str(path.relative_to(folder)), filter=plain)


def main() -> None:
    corpus = reference_part("corpus")
    if corpus is None:
        sys.exit("The Java reference is missing; see tests/support/reference.py")
    CACHE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=CACHE))
    try:
        for oracle in start_oracle(folder.with_suffix(".log")):
            index = make(oracle, corpus, folder)
        (folder / "index.json").write_text(json.dumps({"cases": index}), encoding="utf-8")
        pack(folder, ARCHIVE)
    finally:
        shutil.rmtree(folder)
    print(f"{ARCHIVE.name}: {len(index)} tables, {ARCHIVE.stat().st_size:,} bytes")
    if ARCHIVE.stat().st_size > BYTES_MAX:
        sys.exit(f"more than {BYTES_MAX:,} bytes")


if __name__ == "__main__":
    main()
