"""A table in memory whose history tests write in one line each, and what of it must be in the store.

Data files are made up: life-cycle actions never look inside. `reachable` works out by hand, from the files in the
store alone, what every snapshot and tag needs.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_engine.action import Context
from paimon_engine.actions.branches import BranchResult, DeleteBranch, FastForward, delete_branch, fast_forward
from paimon_engine.actions.expire_changelogs import ExpireChangelogs, ExpireChangelogsResult, expire_changelogs
from paimon_engine.actions.expire_snapshots import ExpireResult, ExpireSnapshots, expire_snapshots
from paimon_engine.actions.remove_orphan_files import (
    RemoveOrphanFiles,
    RemoveOrphanFilesResult,
    remove_orphan_files,
)
from paimon_engine.actions.rollback import Rollback, RollbackResult, rollback
from paimon_engine.actions.tags import (
    CreateTag,
    DeleteTag,
    DeleteTagResult,
    RenameTag,
    TagResult,
    create_tag,
    delete_tag,
    rename_tag,
)
from paimon_engine.env import Env, EnvConfig
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.executor import LocalExecutor
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.format.file_index.container import encode_container
from paimon_engine.meta.manifest import DataFile, FileKind, FileSource
from paimon_engine.meta.paths import MAIN_BRANCH, TablePaths
from paimon_engine.meta.schema import new_schema, schema_to_json
from paimon_engine.meta.snapshot import CommitKind, Snapshot, parse_snapshot
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.check.table_check import check_table
from paimon_engine.table.commit.commit import CommitRequest, Committed, OverwriteScope, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle, bucket_path, load_table
from paimon_engine.table.state.manifests import live_entries, read_manifest, read_manifest_list
from paimon_engine.table.state.snapshots import latest_snapshot, latest_snapshot_id, snapshot_ids, tag_names
from paimon_engine.types import AtomicType, DataField, RowType, TypeRoot

ROOT = "memory://history/db.db/t"
KEY = RowType((DataField(0, "k", AtomicType(TypeRoot.BIGINT)),))
HOUR_MS = 3_600_000
_VERSION_FILE = re.compile(r".*/(?:snapshot/snapshot-\d+|tag/tag-[^/]+)")
_CHANGELOG_FILE = re.compile(r".*/changelog/changelog-\d+")


@dataclass
class History:
    """A primary-key table with one bucket; every commit is one hour after the one before."""

    options: Mapping[str, str] = field(default_factory=dict)
    storage: Any = field(default_factory=MemoryStorage)
    now_ms: int = 0
    root: str = ROOT

    def __post_init__(self) -> None:
        self.numbers = itertools.count()
        options = {"bucket": "1", "manifest.merge-min-count": "3", **self.options}
        schema = new_schema(KEY, primary_keys=["k"], partition_keys=[], options=options, comment=None, time_ms=0)
        self.storage.overwrite(TablePaths(self.root).schema(0), schema_to_json(schema).encode())
        env = Env(self.storage, clock=lambda: self.now_ms, new_id=lambda: f"id{next(self.numbers)}")
        self.handle: TableHandle = load_table(self.root, EnvConfig(self.root), env=env)
        self.executor = LocalExecutor(2, env=env)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def on(self, branch: str) -> TableHandle:
        return self.handle if branch == MAIN_BRANCH else self.handle.on_branch(branch)

    def write(self, *names: str, branch: str = MAIN_BRANCH, watermark: int | None = None) -> History:
        """One commit that adds a level-0 file of each name."""
        names = names or (f"f{next(self.numbers)}",)
        files = tuple(self.file(name) for name in names)
        changelog: tuple[DataFile, ...] = ()
        if self.handle.options.changelog_producer == "input":
            changelog = tuple(self.file(f"changelog-{name}") for name in names)
        message = CommitMessage(EMPTY_ROW, 0, 1, new_files=files, changelog_files=changelog)
        return self._commit(message, CommitKind.APPEND, branch, watermark)

    def compact(self, name: str | None = None, *, branch: str = MAIN_BRANCH) -> History:
        """One commit that replaces all files by one; a single file of level 0 moves up, the same file."""
        table = self.on(branch)
        before = tuple(entry.file for entry in live_entries(table, latest_snapshot(table)))
        if len(before) == 1 and before[0].level == 0 and name is None:
            after = before[0].upgraded(5)
        else:
            rows = sum(file.row_count for file in before)
            made = self.file(name or f"c{next(self.numbers)}", level=5)
            after = replace(made, row_count=rows, file_source=int(FileSource.COMPACT))
        message = CommitMessage(EMPTY_ROW, 0, 1, compact_before=before, compact_after=(after,))
        return self._commit(message, CommitKind.COMPACT, branch)

    def overwrite(self, *names: str, branch: str = MAIN_BRANCH) -> History:
        """One commit that replaces everything by new files."""
        message = CommitMessage(EMPTY_ROW, 0, 1, new_files=tuple(self.file(name) for name in names))
        return self._commit(message, CommitKind.OVERWRITE, branch)

    def file(self, name: str, level: int = 0) -> DataFile:
        """A data file with an extra file, both in the store."""
        key = encode_row([item.type for item in KEY], [1], reserve_null=True)
        found = DataFile(
            *(f"{name}.orc", 10),
            row_count=1,
            min_key=key,
            max_key=key,
            level=level,
            extra_files=(f"{name}.orc.index",),
            file_source=int(FileSource.APPEND),
        )
        self.storage.overwrite(self.path(found.name), b"0123456789")
        self.storage.overwrite(self.path(found.extra_files[0]), encode_container({}))
        return found

    def path(self, name: str) -> str:
        return f"{bucket_path(self.handle, EMPTY_ROW, 0)}/{name}"

    def _commit(self, message: CommitMessage, kind: CommitKind, branch: str, watermark: int | None = None) -> History:
        self.now_ms += HOUR_MS
        scope = OverwriteScope() if kind is CommitKind.OVERWRITE else None
        request = CommitRequest([message], kind, f"user-{next(self.numbers)}", overwrite=scope, watermark=watermark)
        assert isinstance(commit(self.on(branch), request), Committed)
        return self

    def branch(self, name: str, tag: str) -> History:
        """A branch made from a tag of main, as Java makes it."""
        main, paths = self.handle.paths, TablePaths(self.root, name)
        snapshot = parse_snapshot(self.storage.read(main.tag(tag)), tag)
        self.storage.overwrite(paths.tag(tag), self.storage.read(main.tag(tag)))
        self.storage.overwrite(paths.snapshot(snapshot.id), self.storage.read(main.tag(tag)))
        for schema_id in range(snapshot.schema_id + 1):
            self.storage.overwrite(paths.schema(schema_id), self.storage.read(main.schema(schema_id)))
        return self

    # ── actions ─────────────────────────────────────────────────────────────────────────────────

    def tag(self, name: str, snapshot: int | None = None, branch: str = MAIN_BRANCH, **fields: Any) -> TagResult:
        return create_tag(Context(self.on(branch), self.executor), CreateTag(name, snapshot, **fields))

    def rename_tag(self, name: str, to: str, branch: str = MAIN_BRANCH) -> TagResult:
        return rename_tag(Context(self.on(branch)), RenameTag(name, to))

    def delete_tag(self, name: str, branch: str = MAIN_BRANCH, **fields: Any) -> DeleteTagResult:
        return delete_tag(Context(self.on(branch), self.executor), DeleteTag(name, **fields))

    def expire(self, branch: str = MAIN_BRANCH, **fields: Any) -> ExpireResult:
        return expire_snapshots(Context(self.on(branch), self.executor), ExpireSnapshots(**fields))

    def expire_changelogs(self, branch: str = MAIN_BRANCH, **fields: Any) -> ExpireChangelogsResult:
        return expire_changelogs(Context(self.on(branch), self.executor), ExpireChangelogs(**fields))

    def delete_branch(self, name: str) -> BranchResult:
        return delete_branch(Context(self.handle, self.executor), DeleteBranch(name))

    def fast_forward(self, name: str, *, may_fail: bool = False) -> BranchResult | None:
        try:
            return fast_forward(Context(self.handle, self.executor), FastForward(name))
        except InvalidArgumentError:
            if not may_fail:
                raise
            return None

    def remove_orphans(self) -> RemoveOrphanFilesResult:
        """Removes what nothing names, however young; the clock advances to now for that.

        It confirms that all versions are visible: the store's clock is ahead of the commits'.
        """
        spec = RemoveOrphanFiles(self.long_after(), confirm_latest_snapshot=self.latest() or 0)
        return remove_orphan_files(Context(self.handle, self.executor), spec)

    def long_after(self) -> int:
        """Advances the clock until every file is old, though the store's clock is ahead of the commits'; the new now."""
        self.now_ms = max(self.now_ms, time.time_ns() // 1_000_000 + HOUR_MS)
        return self.now_ms

    def set_options(self, options: Mapping[str, str]) -> None:
        """Other options from now on, as a new schema."""
        schema = replace(
            self.handle.schema, id=self.handle.schema.id + 1, options={**self.handle.schema.options, **options}
        )
        self.storage.overwrite(self.handle.paths.schema(schema.id), schema_to_json(schema).encode())
        self.handle = load_table(self.root, EnvConfig(self.root), env=self.handle.env)

    def rollback(self, branch: str = MAIN_BRANCH, **fields: Any) -> RollbackResult:
        return rollback(Context(self.on(branch), self.executor), Rollback(**fields))

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def ids(self, branch: str = MAIN_BRANCH) -> list[int]:
        return snapshot_ids(self.on(branch))

    def latest(self, branch: str = MAIN_BRANCH) -> int | None:
        return latest_snapshot_id(self.on(branch))

    def tags(self, branch: str = MAIN_BRANCH) -> list[str]:
        return tag_names(self.on(branch))

    def stored(self) -> set[str]:
        """Data and metadata files in the store."""
        walked = (info.path for info in self.storage.walk(self.root))
        return {path for path in walked if "/bucket-" in path or "/manifest/" in path}

    def names(self) -> set[str]:
        """Names of the made-up data files in the store."""
        return {path.rpartition("/")[2][: -len(".orc")] for path in self.stored() if path.endswith(".orc")}

    def reachable(self) -> set[str]:
        """Data and metadata files that some snapshot, tag or changelog of some branch needs."""
        needed: set[str] = set()
        for info in self.storage.walk(self.root):
            if _VERSION_FILE.fullmatch(info.path):
                needed |= self._needed(parse_snapshot(self.storage.read(info.path), info.path))
            elif _CHANGELOG_FILE.fullmatch(info.path):
                needed |= self._needed_for_changes(parse_snapshot(self.storage.read(info.path), info.path))
        return needed

    def _needed_for_changes(self, snapshot: Snapshot) -> set[str]:
        """What reads of changes need of a commit whose snapshot has expired."""
        with_data = self.handle.options.changelog_producer == "none"
        lists = (
            [snapshot.base_manifest_list, snapshot.delta_manifest_list]
            if with_data
            else [snapshot.changelog_manifest_list]
        )
        needed: set[str] = set()
        for list_name in filter(None, lists):
            needed.add(self.handle.paths.manifest(list_name))
            for manifest in read_manifest_list(self.handle, list_name):
                needed.add(self.handle.paths.manifest(manifest.name))
                if list_name != snapshot.base_manifest_list:
                    for entry in read_manifest(self.handle, manifest.name):
                        if entry.kind is FileKind.ADD and entry.file.file_source == FileSource.APPEND:
                            names = (entry.file.name, *entry.file.extra_files)
                            needed |= {self.path(name) for name in names}
        return needed

    def _needed(self, snapshot: Snapshot) -> set[str]:
        paths, live, needed = self.handle.paths, set(), self._changelog_of(snapshot)
        for list_name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            needed.add(paths.manifest(list_name))
            for manifest in read_manifest_list(self.handle, list_name):
                needed.add(paths.manifest(manifest.name))
                for entry in read_manifest(self.handle, manifest.name):
                    key = (entry.file.name, entry.file.level, entry.file.extra_files)
                    live.add(key) if entry.kind is FileKind.ADD else live.remove(key)
        return needed | {self.path(path) for name, _, extras in live for path in (name, *extras)}

    def _changelog_of(self, snapshot: Snapshot) -> set[str]:
        if snapshot.changelog_manifest_list is None:
            return set()
        paths, needed = self.handle.paths, {self.handle.paths.manifest(snapshot.changelog_manifest_list)}
        for manifest in read_manifest_list(self.handle, snapshot.changelog_manifest_list):
            needed.add(paths.manifest(manifest.name))
            for entry in read_manifest(self.handle, manifest.name):
                needed |= {self.path(name) for name in (entry.file.name, *entry.file.extra_files)}
        return needed

    def assert_exact(self) -> None:
        """Everything needed is there, and nothing else."""
        assert check_table(self.handle, footers=False) == []
        assert self.stored() == self.reachable()


def everything(history: History) -> dict[str, bytes]:
    """Every file of the table and what is in it, hints apart."""
    found = (info.path for info in history.storage.walk(ROOT))
    return {path: history.storage.read(path) for path in found if path.rpartition("/")[2] not in ("LATEST", "EARLIEST")}
