"""Does each snapshot continue the one before it, and are the partitions that manifest lists give for manifests right?

A snapshot's base is what was live in the snapshot before; readers of changes and expiry rely on that. Plans leave out
manifests by the partition statistics in their list: an entry outside of these is lost to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_engine.meta.manifest import ManifestEntry, ManifestFile, counts
from paimon_engine.table.check.current_files import CurrentFiles
from paimon_engine.table.reach.reachability import Root
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.manifests import may_hold_partitions


class Chain:
    """Sees the snapshots of all branches, those of a branch from old to new.

    A fast-forward replaces main's snapshots one after another. Where one of two is a branch's too and the other is not,
    it is under way, or was interrupted, and must be repeated: that is not damage.
    """

    def __init__(self, roots: Iterable[Root]) -> None:
        self._owners: dict[tuple[int, str], set[str]] = {}
        for root in roots:
            if root.is_snapshot:
                self._owners.setdefault(_commit_of(root), set()).add(root.branch)
        self._last: Root | None = None

    def broken(self, root: Root, base: Sequence[ManifestFile], live: CurrentFiles) -> str | None:
        """How the base of a snapshot differs from `live`, the files of the one before; None if nothing is wrong.

        Raises: FoldError if the base removes what it never added.
        """
        last = self._last
        if last is None or (last.branch, last.snapshot.id + 1) != (root.branch, root.snapshot.id):
            return None
        lost, foreign = live.differences(base)
        if not (lost or foreign) or self._owners.get(_commit_of(last)) != self._owners.get(_commit_of(root)):
            return None
        parts = [f"lacks {len(lost)} of its files, such as {lost[0]}"] if lost else []
        parts += [f"has {len(foreign)} others, such as {foreign[0]}"] if foreign else []
        return f"does not continue snapshot {last.snapshot.id}: its base {' and '.join(parts)}"

    def saw(self, root: Root) -> None:
        """Takes note of a snapshot whose live files are known now."""
        self._last = root


def _commit_of(root: Root) -> tuple[int, str]:
    return root.snapshot.id, root.snapshot.delta_manifest_list


def miscounted(manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> str | None:
    """Says that a manifest does not have as many entries as its list says; None if it has."""
    added, deleted = counts(entries)
    if (added, deleted) == (manifest.added_count, manifest.deleted_count):
        return None
    listed = f"{manifest.added_count} and {manifest.deleted_count}"
    return f"it adds {added} files and removes {deleted}, a manifest list says {listed}"


def outside_statistics(table: TableHandle, manifest: ManifestFile, entries: Iterable[ManifestEntry]) -> str | None:
    """Says that files of a manifest are in partitions outside its statistics; None if none is.

    Raises: CorruptTableError if the statistics cannot be decoded.
    """
    partitions = dict.fromkeys(entry.partition for entry in entries)
    lost = sum(not may_hold_partitions(table, manifest, [partition]) for partition in partitions)
    if not lost:
        return None
    return f"its files are in {lost} partitions outside the statistics in its manifest list"


def latest_roots(roots: Sequence[Root]) -> list[Root]:
    """The latest snapshot of each branch."""
    ascending = sorted((root for root in roots if root.is_snapshot), key=lambda root: root.snapshot.id)
    return list({root.branch: root for root in ascending}.values())
