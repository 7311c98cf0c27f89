"""One trial: an action on a part of a table must keep all that the complete table needs.

What may be deleted nevertheless: what the same action deletes in the complete table; and what only versions need that
the action had to remove and has removed. (These versions themselves are the purpose of the action: if too few are
visible to keep the right ones, nothing else is damaged.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from paimon_engine.action import Context
from paimon_engine.actions.create_due_tags import CreateDueTags, create_due_tags
from paimon_engine.actions.repair_earliest_snapshot import RepairEarliestSnapshot
from paimon_engine.errors import PaimonError
from tests.partial_views.subjects import Files, files_of, reached, whole, world_of
from tests.partial_views.views import View
from tests.support.world import HOUR_MS, World

FAR_MS: Final = 400 * 24 * HOUR_MS
_VERSION = re.compile(r"(?:branch/branch-[^/]+/)?(?:snapshot/snapshot-\d+|tag/tag-[^/]+|changelog/changelog-\d+)")

_ASIDE = re.compile(r"quarantine/[^/]+/")

Deed = Callable[[World], Any]


def _expire(world: World) -> Any:
    return world.table().expire_snapshots(retain_max=1, retain_min=1, older_than=world.now_ms)


def _due_tags(world: World) -> Any:
    """Moves a tag that is made again with each run, and drops others of that kind."""
    options = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "old", "tag.num-retained-max": "1"}
    return create_due_tags(Context(world.on(**options), world.executor), CreateDueTags())


def _restore(world: World, *, as_tags: bool) -> list[Any]:
    """Restores every visible quarantine that can be restored."""
    message: list[Any] = []
    for item in world.table().quarantines():
        try:
            message.append(world.table().restore(item["quarantine"], as_tags=as_tags))
        except PaimonError as error:
            message.append(error)
    return message


DEEDS: Final[Mapping[str, Deed]] = {
    "remove_orphan_files": lambda w: w.table().remove_orphan_files(w.now_ms),
    "remove_orphan_files, confirmed": lambda w: w.table().remove_orphan_files(
        w.now_ms, confirm_latest_snapshot=w.table().latest_snapshot_id()
    ),
    "remove_orphan_files, quarantine": lambda w: w.table().remove_orphan_files(w.now_ms, quarantine=True),
    "expire_snapshots": _expire,
    "expire_snapshots, quarantine": lambda w: w.table().expire_snapshots(
        retain_max=1, retain_min=1, older_than=w.now_ms, quarantine=True
    ),
    "expire_snapshots of a branch": lambda w: w.table("b").expire_snapshots(
        retain_max=1, retain_min=1, older_than=w.now_ms
    ),
    "expire_changelogs": lambda w: w.table().expire_changelogs(delete_all=True),
    "expire_tags": lambda w: w.table().expire_tags(older_than=w.now_ms),
    "delete_tag": lambda w: w.table().delete_tag("old"),
    "rename_tag": lambda w: w.table().rename_tag("old", "older"),
    "create_tag, replacing": lambda w: w.table().create_tag("old", if_exists="replace"),
    "create_due_tags": _due_tags,
    "delete_branch": lambda w: w.table().delete_branch("b"),
    "fast_forward": lambda w: w.table().fast_forward("b"),
    "rollback": lambda w: w.table().rollback(snapshot=8 if w.handle.schema.partition_keys else 5),
    "rollback to a tag": lambda w: w.table().rollback(tag="old"),
    "rollback to a time": lambda w: w.table().rollback(timestamp=w.now_ms - FAR_MS - 2 * HOUR_MS),
    "rollback_to_as_latest": lambda w: w.table().rollback_to_as_latest(tag="old"),
    "merge_branch": lambda w: w.table().merge_branch("b"),
    "purge_files": lambda w: w.table().purge_files(older_than=w.now_ms),
    "purge_files, keeping": lambda w: w.table().purge_files(keep_tags=True, keep_branches=True, older_than=w.now_ms),
    "repair_earliest_snapshot": lambda w: w.run(RepairEarliestSnapshot()),
    "repair to the latest": lambda w: w.run(RepairEarliestSnapshot(snapshot=w.table().latest_snapshot_id())),
    "rename_branch": lambda w: w.table().rename_branch("b", "c"),
    "drop_partition": lambda w: w.table().drop_partition({"p": "a"}),
    "remove_unexisting_files": lambda w: w.table().remove_unexisting_files(),
    "remove_unexisting_manifests": lambda w: w.table().remove_unexisting_manifests(),
    "compact_manifests": lambda w: w.table().compact_manifests(),
    "overwrite": lambda w: w.write({1: 1}, overwrite={}),
    "restore": lambda w: _restore(w, as_tags=False),
    "restore as tags": lambda w: _restore(w, as_tags=True),
    "empty_quarantine": lambda w: w.table().empty_quarantine(older_than=w.now_ms),
    "drop_table": lambda w: w.env.storage.delete_tree(w.root),
    "compact": lambda w: w.table().compact(full=True),
}


EMPTYING: Final = ("empty_quarantine", "drop_table")
"""What deletes permanently, on request, what was quarantined."""
LOOKING: Final = ("remove_orphan_files", "remove_orphan_files, quarantine")
STATING: Final = ("remove_orphan_files, confirmed", "repair to the latest")
"""With these the user says what is missing; some views leave a trace that this does not overrule: separate tests."""
_TAG_OR_BRANCH = re.compile(r"(?:branch/branch-[^/]+/(?:snapshot/snapshot-\d+|schema/.*)|(?:.*/)?tag/tag-[^/]+)")


def can_know(deed: str, view: View, paths: Sequence[str]) -> bool:
    """Whether the action can find in the visible files that something is missing.

    A tag or branch that is not visible leaves no trace where all its files are needed by visible versions, too. Orphan
    removal does not touch such files. The remover of these versions cannot know (`docs/incomplete-tables.md`). Nor can
    an action to which the user says that no version is missing, or that those missing are lost.
    """
    hidden = [path for path in paths if path not in view.paths]
    if deed in STATING:
        return not any(_VERSION.fullmatch(path) for path in hidden)
    return deed in LOOKING or not any(_TAG_OR_BRANCH.fullmatch(path) for path in hidden)


@dataclass(frozen=True)
class Outcome:
    """`lost` are deleted files that the complete table needs; `said` is what the action returned."""

    lost: tuple[str, ...]
    message: str


def _carried_out(files: Files, now_ms: int, deed: Deed) -> tuple[dict[str, tuple[bytes, int]], str]:
    world = world_of(files, now_ms + FAR_MS)
    try:
        result = deed(world)
    except PaimonError as error:
        return files_of(world.inner), f"{type(error).__name__}: {error}"
    return files_of(world.inner), repr(result)


@cache
def _after_whole(subject: str, name: str) -> frozenset[str]:
    """Paths that are left of the whole table after the action."""
    table = whole(subject)
    return frozenset(_carried_out(table.files, table.now_ms, DEEDS[name])[0])


def run_trial(subject: str, view: View, name: str) -> Outcome:
    """Carries the action out on what is visible of the table."""
    table = whole(subject)
    seen = {path: file for path, file in table.files.items() if path in view.paths}
    after, message = _carried_out(seen, table.now_ms, DEEDS[name])
    gone = {path for path in seen if path not in after and not _is_elsewhere(path, seen, after)}
    may_go = table.files.keys() - _after_whole(subject, name)
    staying = [path for path in table.files if _VERSION.fullmatch(path) and path not in gone]
    needed = reached(table.files, staying)
    lost = {path for path in gone & needed if path not in may_go}
    if name not in EMPTYING:
        lost |= {path for path in gone if _ASIDE.match(path) and not path.endswith("/moved.json")}
        lost |= _versions_forgotten(seen, after)
    return Outcome(tuple(sorted(lost)), message)


def _is_elsewhere(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a file was moved: out of a quarantine, into one, or with its branch."""
    location = _ASIDE.sub("", path)
    return location in after or any(new.endswith(f"/{location}") for new in after.keys() - before.keys())


def _versions_forgotten(seen: Files, after: Files) -> set[str]:
    """What lists of quarantines would have restored, and is neither there nor in a list now."""
    forgotten: set[str] = set()
    for path, (data, _) in seen.items():
        if path.endswith("/moved.json") and path not in after:
            roots = json.loads(data)["roots"].items()
            texts = {content for content, _ in after.values()}
            forgotten |= {root for root, text in roots if _VERSION.fullmatch(root) and text.encode() not in texts}
    return forgotten
