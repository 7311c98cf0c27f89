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
from functools import cached_property, lru_cache
from typing import Any

import fastavro

from paimon_engine.errors import NotFoundError
from paimon_engine.storage import Storage

ADD, DELETE = 0, 1
_VERSION = re.compile(
    r"(?:branch/branch-(?P<branch>[^/]+)/)?(?P<kind>snapshot|tag|changelog)/(?P=kind)-(?P<name>[^/]+)"
)
_COLLECTED = re.compile(r"(?:manifest|index|statistics)/.+|(?:[^/]+=[^/]*/)*bucket-[^/]+/.+")
"""Files that clean-up must remove where nothing needs them."""
_KEPT = re.compile(
    r"(?:branch/branch-[^/]+/)?"
    r"(?:commits/[^/]+\.json|commits/SETTLED|MERGED-[^/]+|FORWARDED|schema/schema-\d+|(?:snapshot|changelog)/(?:EARLIEST|LATEST)"
    r"|tag/tag-success-file/[^/.][^/]*)"
    r"|consumer/consumer-[^/]+|(?:[^/]+=[^/]+/)+_SUCCESS|quarantine/.*"
)
"""Files that need nobody who names them."""


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
    """The files of one table; what a version needs is kept, since files never change."""

    storage: Storage
    root: str
    _late: dict[tuple[tuple[int, str], tuple[int, str]], bool] = field(default_factory=dict)
    _needs: dict[tuple[bool, str], frozenset[str]] = field(default_factory=dict)

    def take_over(self, other: Reach) -> None:
        """Knows what another one, which has looked at the same files, has parsed."""
        self._needs = dict(other._needs)

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
            if match is not None:
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

    def unreached(self) -> set[str]:
        """Paths of the files that nothing needs. Raises: AssertionError naming what is needed and missing.

        What a quarantine has a copy of stays at its path too, until that is emptied or restored.
        """
        stored, needed = self.stored(), self.all_needed()
        assert needed <= stored, f"gone although something needs it: {sorted(needed - stored)}"
        copies = {path.split("/", 2)[2] for path in stored if path.startswith("quarantine/") and path.count("/") > 1}
        kept = needed | copies
        return {path for path in stored - kept if not _VERSION.fullmatch(path) and not _KEPT.fullmatch(path)}

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
        removed: set[tuple[Any, ...]] = set()
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
                removed.add(key)
        # Java 1.4 and 2.0, and pypaimon, take away what any entry removes, before or after it is added.
        again = removed & live.keys()
        assert not again, f"{again} are removed and added again, which other readers do not see"
        return live

    def _of_changelog(self, changelog: dict[str, Any], branch: str | None) -> Iterator[str]:
        """A changelog needs its list; where a table writes none, its commit's lists and what writers added in it."""
        if changelog.get("changelogManifestList"):
            yield from self._changelog(changelog)
        if not self._keeps_delta(changelog, branch):
            return
        for name in (changelog["baseManifestList"], changelog["deltaManifestList"]):
            yield f"manifest/{name}"
            yield from (f"manifest/{manifest}" for manifest in self._manifests(name))
        for manifest in self._manifests(changelog["deltaManifestList"]):
            for entry in self._read(f"manifest/{manifest}"):
                # Source 0 is a write; what compactions wrote is no change.
                if entry["_KIND"] == ADD and entry["_FILE"].get("_FILE_SOURCE") in (None, 0):
                    yield from self._files(entry)

    def _keeps_delta(self, changelog: dict[str, Any], branch: str | None) -> bool:
        location = "" if branch is None else f"branch/branch-{branch}/"
        schema = json.loads(self.storage.read(f"{self.root}/{location}schema/schema-{changelog['schemaId']}"))
        return str(schema["options"].get("changelog-producer", "none")) == "none"

    def named_by_changelogs(self) -> set[str]:
        """What lists of changelogs name, as far as it is there: a clean-up keeps it, also where nothing needs it."""
        changelogs, stored = [version.json for version in self.versions() if version.kind == "changelog"], self.stored()
        named = ("baseManifestList", "deltaManifestList")
        lists = {f"manifest/{one[name]}" for one in changelogs for name in named} & stored
        manifests = {f"manifest/{record['_FILE_NAME']}" for path in lists for record in self._read(path)} & stored
        files = {path for manifest in manifests for entry in self._read(manifest) for path in self._files(entry)}
        return lists | manifests | files | {f"statistics/{one.get('statistics')}" for one in changelogs}

    def removed_by_changelogs(self) -> set[str]:
        """Data files that the commits of changelogs have removed: an expiry deletes them together with these."""
        kept = [one for one in self.versions() if one.kind == "changelog" and self._keeps_delta(one.json, one.branch)]
        return {
            path
            for version in kept
            for manifest in self._manifests(version.json["deltaManifestList"])
            for entry in self._read(f"manifest/{manifest}")
            if entry["_KIND"] == DELETE
            for path in self._files(entry)
        }

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
        return _records(self.storage.read(f"{self.root}/{path}"))

    @staticmethod
    def _identity(entry: dict[str, Any]) -> tuple[Any, ...]:
        file = entry["_FILE"]
        beside = tuple(file["_EXTRA_FILES"] or ()), file.get("_EMBEDDED_FILE_INDEX"), file.get("_EXTERNAL_PATH")
        return entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"], *beside

    @cached_property
    def _partition_columns(self) -> list[tuple[str, bool]]:
        """Names of those of any schema, which never change, and whether their values are texts."""
        path = min(path for path in self.stored() if "schema/schema-" in path)
        schema = json.loads(self.storage.read(f"{self.root}/{path}"))
        types = {field["name"]: str(field["type"]) for field in schema["fields"]}
        return [(name, types[name].startswith(("STRING", "VARCHAR", "CHAR"))) for name in schema["partitionKeys"]]

    def _files(self, entry: dict[str, Any]) -> list[str]:
        file = entry["_FILE"]
        words = zip(self._partition_columns, words_of(entry["_PARTITION"]), strict=True)
        # Rows that wait for their bucket have the number -2.
        bucket = "postpone" if entry["_BUCKET"] == -2 else entry["_BUCKET"]
        directory = "/".join(
            [*(f"{key}={text if is_text else number}" for (key, is_text), (text, number) in words), f"bucket-{bucket}"]
        )
        return [f"{directory}/{name}" for name in (file["_FILE_NAME"], *(file["_EXTRA_FILES"] or ()))]


@lru_cache(maxsize=20_000)
def _records(data: bytes) -> list[Any]:
    """Records of an Avro file."""
    return list(fastavro.reader(io.BytesIO(data)))


def unreached(storage: Storage, root: str) -> set[str]:
    """Paths below `root` of the files that nothing needs; see `Reach.unreached`."""
    return Reach(storage, root).unreached()


def words_of(row: bytes) -> Iterator[tuple[str, int]]:
    """Each value of a stored row, read as a text and as an integer.

    A row is a count, null bits in words of eight bytes, then a word for each value.
    """
    count = int.from_bytes(row[:4], "big")
    body = row[4:]
    begin = (count + 63 + 8) // 64 * 8
    for position in range(begin, begin + 8 * count, 8):
        word = body[position : position + 8]
        if word[7] & 0x80:
            text = word[: word[7] & 0x7F]
        else:
            size, offset = int.from_bytes(word[:4], "little"), int.from_bytes(word[4:], "little")
            text = body[offset : offset + size]
        yield text.decode(errors="replace"), int.from_bytes(word, "little", signed=True)
