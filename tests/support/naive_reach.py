"""What of a stored table anything can reach, worked out in the simplest way, from the files alone.

Every snapshot, tag and changelog file of every branch is read, every list and manifest that it names, and every entry
in these. Names of files are unique, so names are all that is compared.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from paimon_engine.format.avro import read_records
from paimon_engine.storage import Storage

_VERSION = re.compile(r"(?:branch/branch-[^/]+/)?(?:snapshot/snapshot-\d+|tag/tag-[^/]+|changelog/changelog-\d+)")
_OTHER = re.compile(
    r"(?:branch/branch-[^/]+/)?"
    r"(?:commits/[^/]+\.json|commits/SETTLED|MERGED-[^/]+|schema/schema-\d+|(?:snapshot|changelog)/(?:EARLIEST|LATEST)|tag/tag-success-file/[^/.][^/]*)"
    r"|consumer/consumer-[^/]+|(?:[^/]+=[^/]+/)+_SUCCESS|quarantine/.*"
)
_ADDED = 0

read = lru_cache(maxsize=20_000)(read_records)
"""Records of a metadata file, by its bytes."""


def unreached(storage: Storage, root: str) -> set[str]:
    """Paths below `root` of the files that nothing needs.

    Raises AssertionError naming what is needed and missing.
    """
    inside = [info.path[len(root) + 1 :] for info in storage.walk(root)]
    names = {path.rpartition("/")[2]: path for path in inside}
    needed = reachable_names(storage, root, [path for path in inside if _VERSION.fullmatch(path)])
    gone = needed - names.keys()
    assert not gone, f"deleted although something needs it: {sorted(gone)}"
    return {
        path
        for name, path in names.items()
        if name not in needed and not _VERSION.fullmatch(path) and not _OTHER.fullmatch(path)
    }


def reachable_names(storage: Storage, root: str, versions: list[str]) -> set[str]:
    """Names of all files that these snapshots, tags and changelogs need."""
    needed: set[str] = set()
    for path in versions:
        stored = json.loads(storage.read(f"{root}/{path}"))
        if "changelog/changelog-" in path:
            # A changelog without its snapshot needs only its changelog files.
            stored = {name: value for name, value in stored.items() if name == "changelogManifestList"}
        needed |= _needed(storage, root, stored)
    return needed


def _needed(storage: Storage, root: str, snapshot: dict[str, Any]) -> set[str]:
    needed: set[str] = set()
    live: dict[tuple[Any, ...], tuple[str, ...]] = {}

    def records(name: str) -> list[dict[str, Any]]:
        needed.add(name)
        return read(storage.read(f"{root}/manifest/{name}"), name)

    for key in ("baseManifestList", "deltaManifestList", "changelogManifestList"):
        if snapshot.get(key) is None:
            continue
        for manifest in records(snapshot[key]):
            for entry in records(manifest["_FILE_NAME"]):
                file = entry["_FILE"]
                names = (file["_FILE_NAME"], *(file["_EXTRA_FILES"] or ()))
                identity = (key == "changelogManifestList", file["_LEVEL"], names)
                if entry["_KIND"] == _ADDED:
                    live[identity] = names
                else:
                    del live[identity]
    needed.update(name for names in live.values() for name in names)
    if snapshot.get("statistics") is not None:
        needed.add(snapshot["statistics"])
    if snapshot.get("indexManifest") is not None:
        needed.update(record["_FILE_NAME"] for record in records(snapshot["indexManifest"]))
    return needed
