"""What every snapshot, tag, branch and long-lived changelog needs, worked out from the files alone.

Nothing of the engine is used: JSON and Avro are read with plain libraries, partitions are decoded by hand. The rules
are the format's own: a root needs its lists, their manifests, the data files live after all entries are folded in
order, their extra files, its changelog files, its index manifest with the index files, and its statistics.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro

from paimon_engine.errors import NotFoundError
from paimon_engine.storage import MemoryStorage

ADD, DELETE = 0, 1
_VERSION = re.compile(r"(?:branch/branch-(?P<branch>[^/]+)/)?(?P<kind>snapshot|tag|changelog)/(?P=kind)-(?P<name>.+)")
_COLLECTED = re.compile(r"(?:manifest|index|statistics)/.+|(?:[^/]+=[^/]*/)*bucket-[^/]+/.+")
"""Files that clean-up must remove where nothing needs them."""


@dataclass(frozen=True)
class Version:
    """A snapshot, tag or changelog file: its path, and its JSON."""

    path: str
    branch: str | None
    kind: str
    name: str
    json: dict[str, Any]

    @property
    def commit(self) -> tuple[int, str]:
        """What identifies commits, wherever they were copied to."""
        return int(self.json["id"]), str(self.json["deltaManifestList"])


@dataclass
class Reach:
    """The files of one table in memory; what has been parsed is kept, since files never change."""

    storage: MemoryStorage
    root: str
    partition_keys: Sequence[str]
    _records: dict[str, list[Any]] = field(default_factory=dict)
    _late: dict[tuple[tuple[int, str], tuple[int, str]], bool] = field(default_factory=dict)
    _needs: dict[tuple[bool, str], frozenset[str]] = field(default_factory=dict)

    def take_over(self, other: Reach) -> None:
        """Knows what another one, which has looked at the same files, has parsed."""
        self._records, self._needs = dict(other._records), dict(other._needs)

    def stored(self) -> set[str]:
        """Paths below the table's directory."""
        return {info.path[len(self.root) + 1 :] for info in self.storage.walk(self.root)}

    def collected(self) -> set[str]:
        """Those of data and metadata, which are there only as long as something needs them."""
        return {path for path in self.stored() if _COLLECTED.fullmatch(path)}

    def versions(self) -> list[Version]:
        """All of them, of all branches; by branch, kind, and number of the snapshot."""
        found = []
        for path in self.stored():
            match = _VERSION.fullmatch(path)
            if match is not None and not path.endswith("_SUCCESS"):
                text = json.loads(self.storage.read(f"{self.root}/{path}"))
                found.append(Version(path, match["branch"], match["kind"], match["name"], text))
        return sorted(found, key=lambda one: (one.branch or "", one.kind, one.json["id"], one.name))

    def needed(self, version: Version) -> frozenset[str]:
        """Paths that the version cannot do without.

        Raises: KeyError, NotFoundError where metadata is missing.
        """
        memo = version.kind == "changelog", json.dumps(version.json, sort_keys=True)
        if memo not in self._needs:
            if version.kind == "changelog":
                found = self._of_changelog(version.json, version.branch)
            else:
                found = self._of_snapshot(version.json)
            self._needs[memo] = frozenset(found)
        return self._needs[memo]

    def all_needed(self) -> set[str]:
        """What all versions need."""
        return {path for version in self.versions() for path in self.needed(version)}

    def live(self, snapshot: Version) -> list[str]:
        """Its data files, without their extra files."""
        lists = [snapshot.json["baseManifestList"], snapshot.json["deltaManifestList"]]
        return [paths[0] for paths in self._live(lists).values()]

    def listed(self, snapshot: Version) -> list[str]:
        """Its manifests."""
        lists = [snapshot.json["baseManifestList"], snapshot.json["deltaManifestList"]]
        return [f"manifest/{manifest}" for name in lists for manifest in self._manifests(name)]

    def is_late(self, snapshot: Version, successor: Version) -> bool:
        """Whether the successor was not made of that snapshot: it came when its number had expired already."""
        if int(successor.name) != int(snapshot.name) + 1:
            return True
        pair = snapshot.commit, successor.commit
        if pair not in self._late:
            try:
                ours = self._live([snapshot.json["baseManifestList"], snapshot.json["deltaManifestList"]])
                self._late[pair] = self._live([successor.json["baseManifestList"]]).keys() != ours.keys()
            except NotFoundError:
                self._late[pair] = True
        return self._late[pair]

    # ── one version ─────────────────────────────────────────────────────────────────────────────

    def _of_snapshot(self, snapshot: dict[str, Any]) -> Iterator[str]:
        lists = [snapshot["baseManifestList"], snapshot["deltaManifestList"]]
        for list_name in lists:
            yield f"manifest/{list_name}"
            yield from (f"manifest/{manifest}" for manifest in self._manifests(list_name))
        for paths in self._live(lists).values():
            yield from paths
        yield from self._changelog(snapshot)
        if snapshot.get("indexManifest"):
            yield f"manifest/{snapshot['indexManifest']}"
            for entry in self._read(f"manifest/{snapshot['indexManifest']}"):
                assert entry["_KIND"] == ADD
                yield f"index/{entry['_FILE_NAME']}"
        if snapshot.get("statistics"):
            yield f"statistics/{snapshot['statistics']}"

    def _live(self, lists: Sequence[str]) -> dict[tuple[Any, ...], list[str]]:
        """Paths of the files that are live after all entries of the lists, by what identifies files."""
        live: dict[tuple[Any, ...], list[str]] = {}
        for entry in (
            entry
            for name in lists
            for manifest in self._manifests(name)
            for entry in self._read(f"manifest/{manifest}")
        ):
            key = self._identity(entry)
            if entry["_KIND"] == ADD:
                assert key not in live, f"{key} is added twice"
                live[key] = self._files(entry)
            else:
                del live[key]
        return live

    def _of_changelog(self, changelog: dict[str, Any], branch: str | None) -> Iterator[str]:
        """A changelog needs its list; where a table writes none, its commit's lists and what writers added in it."""
        if changelog.get("changelogManifestList"):
            yield from self._changelog(changelog)
        place = "" if branch is None else f"branch/branch-{branch}/"
        schema = json.loads(self.storage.read(f"{self.root}/{place}schema/schema-{changelog['schemaId']}"))
        if schema["options"].get("changelog-producer", "none") != "none":
            return
        for name in (changelog["baseManifestList"], changelog["deltaManifestList"]):
            yield f"manifest/{name}"
            yield from (f"manifest/{manifest}" for manifest in self._manifests(name))
        for manifest in self._manifests(changelog["deltaManifestList"]):
            for entry in self._read(f"manifest/{manifest}"):
                # Source 0 is a write; what compactions wrote is no change.
                if entry["_KIND"] == ADD and entry["_FILE"].get("_FILE_SOURCE") in (None, 0):
                    yield from self._files(entry)

    def _changelog(self, snapshot: dict[str, Any]) -> Iterator[str]:
        name = snapshot.get("changelogManifestList")
        if not name:
            return
        yield f"manifest/{name}"
        for manifest in self._manifests(name):
            yield f"manifest/{manifest}"
            for entry in self._read(f"manifest/{manifest}"):
                assert entry["_KIND"] == ADD
                yield from self._files(entry)

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    def _manifests(self, list_name: str) -> list[str]:
        return [record["_FILE_NAME"] for record in self._read(f"manifest/{list_name}")]

    def _read(self, path: str) -> list[Any]:
        if path not in self._records:
            self._records[path] = list(fastavro.reader(io.BytesIO(self.storage.read(f"{self.root}/{path}"))))
        return self._records[path]

    @staticmethod
    def _identity(entry: dict[str, Any]) -> tuple[Any, ...]:
        file = entry["_FILE"]
        return entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"]

    def _files(self, entry: dict[str, Any]) -> list[str]:
        file = entry["_FILE"]
        values = zip(self.partition_keys, texts(entry["_PARTITION"]), strict=True)
        directory = "/".join([*(f"{key}={value}" for key, value in values), f"bucket-{entry['_BUCKET']}"])
        return [f"{directory}/{name}" for name in (file["_FILE_NAME"], *(file["_EXTRA_FILES"] or ()))]


def texts(row: bytes) -> list[str]:
    """The values of a stored row of strings: a count, null bits in words of eight bytes, then a word for each value."""
    count = int.from_bytes(row[:4], "big")
    body = row[4:]
    begin = (count + 63 + 8) // 64 * 8
    found = []
    for position in range(begin, begin + 8 * count, 8):
        word = body[position : position + 8]
        if word[7] & 0x80:
            found.append(word[: word[7] & 0x7F].decode())
        else:
            size, offset = int.from_bytes(word[:4], "little"), int.from_bytes(word[4:], "little")
            found.append(body[offset : offset + size].decode())
    return found
