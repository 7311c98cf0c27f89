"""A package with entry points for tag callbacks, installed in a directory: what pip leaves, and no more.

Its callbacks write a line of what they hear into the file that their parameter names, `<file>` or `<file>|<what>`:
`fail` raises, `die` ends like a killed process, both on creations; `fail-deleted` and `die-deleted` on deletions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = """
import json
from pathlib import Path


class Note:
    name = "Note"

    def __init__(self, parameter):
        self.path, _, self.what = (parameter or "").partition("|")

    def write(self, word, event):
        table = Path(event.table)
        tag = (table if event.branch == "main" else table / "branch" / f"branch-{event.branch}") / "tag"
        line = {
            "class": self.name,
            "word": word,
            "tag": event.tag,
            "snapshot": event.snapshot_id,
            "branch": event.branch,
            "table": event.table,
            "is_there": (tag / f"tag-{event.tag}").exists(),
            "has_success_file": (tag / "tag-success-file" / f"{event.tag}_SUCCESS").exists(),
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\\n")

    def tag_created(self, event):
        self.write("created", event)
        self.end("")

    def tag_deleted(self, event):
        self.write("deleted", event)
        self.end("-deleted")

    def end(self, when):
        if self.what == "fail" + when:
            raise ValueError(f"no answer from {self.path}|{self.what}")
        if self.what == "die" + when:
            raise KeyboardInterrupt


class Other(Note):
    name = "Other"

    def close(self):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"class": self.name, "word": "closed", "tag": None}) + "\\n")


class Deaf:
    def __init__(self, parameter):
        pass


def broken(parameter):
    raise ValueError(f"cannot connect to {parameter}")
"""

ENTRY_POINTS = """[paimon_engine.tag_callbacks]
com.acme.Note = tag_hooks_of_acme:Note
com.acme.Other = tag_hooks_of_acme:Other
com.acme.Deaf = tag_hooks_of_acme:Deaf
com.acme.Broken = tag_hooks_of_acme:broken
com.acme.Lost = tag_hooks_of_nobody:Note
"""


def install(directory: Path, name: str = "acme-hooks", entry_points: str = ENTRY_POINTS) -> Path:
    """Installs the package there; the directory belongs on `sys.path`."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tag_hooks_of_acme.py").write_text(SOURCE, encoding="utf-8")
    info = directory / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    return directory


@dataclass
class Heard:
    """What callbacks with that file as their parameter have heard."""

    file: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        if not self.file.exists():
            return []
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]

    @property
    def words(self) -> list[tuple[str, str, int | None]]:
        """Of the class `Note`: created or deleted, tag, snapshot."""
        found = [line for line in self.lines if line["class"] == "Note"]
        return [(line["word"], line["tag"], line["snapshot"]) for line in found]

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)

    def options(self, what: str = "") -> dict[str, str]:
        """Options of a table that notifies the class `Note`."""
        parameter = f"{self.file}|{what}" if what else str(self.file)
        return {"tag.callbacks": "com.acme.Note", "tag.callback.com.acme.Note.param": parameter}
