"""A table in memory whose history tests write in one line each, and what of it must be in the store.

Data files are made up: what only looks at metadata never reads them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from paimon_engine.actions.branches import BranchResult, DeleteBranch, FastForward
from paimon_engine.actions.expire_changelogs import ExpireChangelogs, ExpireChangelogsResult
from paimon_engine.actions.expire_snapshots import ExpireResult, ExpireSnapshots
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles, RemoveOrphanFilesResult
from paimon_engine.actions.rollback import Rollback, RollbackResult
from paimon_engine.actions.tags import CreateTag, DeleteTag, DeleteTagResult, RenameTag, TagResult
from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.binary_row import EMPTY_ROW, encode_row
from paimon_engine.format.file_index.container import encode_container
from paimon_engine.meta.manifest import DataFile, FileSource
from paimon_engine.meta.paths import TablePaths
from paimon_engine.meta.schema import new_schema, schema_to_json
from paimon_engine.meta.snapshot import CommitKind, parse_snapshot
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.commit.commit import CommitRequest, Committed, OverwriteScope, commit
from paimon_engine.table.files.commit_message import CommitMessage
from paimon_engine.table.state.handle import TableHandle, bucket_path
from paimon_engine.table.state.manifests import live_entries
from paimon_engine.table.state.snapshots import latest_snapshot, latest_snapshot_id, snapshot_ids, tag_names
from paimon_engine.types import AtomicType, DataField, RowType, TypeRoot
from tests.support.world.check import assert_sound
from tests.support.world.reach import Reach
from tests.support.world.world import HOUR_MS, MAIN, Place

ROOT = "memory://history/db.db/t"
KEY = RowType((DataField(0, "k", AtomicType(TypeRoot.BIGINT)),))


class History(Place):
    """A primary-key table with one bucket; every commit is one hour after the one before.

    Its handle is opened once, and the clock of a store in memory is the real one, ahead of the commits'.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        storage: Any = None,
        now_ms: int = 0,
        root: str = ROOT,
        first_id: int = 0,
    ) -> None:
        store = MemoryStorage() if storage is None else storage
        super().__init__(store, now_ms=now_ms, root=root, threads=2, first_id=first_id)
        self.options = options or {}
        given = {"bucket": "1", "manifest.merge-min-count": "3", **self.options}
        schema = new_schema(KEY, primary_keys=["k"], partition_keys=[], options=given, comment=None, time_ms=0)
        self.storage.overwrite(TablePaths(self.root).schema(0), schema_to_json(schema).encode())
        self._main = super().on()

    def through(self, storage: Any) -> Self:
        """The same table, opened through another storage."""
        super().through(storage)
        self._main = super().on()
        return self

    def new_id(self) -> str:
        return f"id{next(self.numbers)}"

    @property
    def handle(self) -> TableHandle:
        """The main branch, as it was opened."""
        return self._main

    @handle.setter
    def handle(self, opened: TableHandle) -> None:
        self._main = opened

    def on(self, branch: str = MAIN, **options: str) -> TableHandle:
        if options:
            return super().on(branch, **options)
        return self._main if branch == MAIN else self._main.on_branch(branch)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def write(self, *names: str, branch: str = MAIN, watermark: int | None = None) -> History:
        """One commit that adds a level-0 file of each name."""
        names = names or (f"f{next(self.numbers)}",)
        files = tuple(self.file(name) for name in names)
        changelog: tuple[DataFile, ...] = ()
        if self.handle.options.changelog_producer == "input":
            changelog = tuple(self.file(f"changelog-{name}") for name in names)
        message = CommitMessage(EMPTY_ROW, 0, 1, new_files=files, changelog_files=changelog)
        return self._commit(message, CommitKind.APPEND, branch, watermark)

    def compact(self, name: str | None = None, *, branch: str = MAIN) -> History:
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

    def overwrite(self, *names: str, branch: str = MAIN) -> History:
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

    def tag(self, name: str, snapshot: int | None = None, branch: str = MAIN, **fields: Any) -> TagResult:
        return self.run(CreateTag(name, snapshot, **fields), branch=branch)

    def rename_tag(self, name: str, to: str, branch: str = MAIN) -> TagResult:
        return self.run(RenameTag(name, to), branch=branch)

    def delete_tag(self, name: str, branch: str = MAIN, **fields: Any) -> DeleteTagResult:
        return self.run(DeleteTag(name, **fields), branch=branch)

    def expire(self, branch: str = MAIN, **fields: Any) -> ExpireResult:
        return self.run(ExpireSnapshots(**fields), branch=branch)

    def expire_changelogs(self, branch: str = MAIN, **fields: Any) -> ExpireChangelogsResult:
        return self.run(ExpireChangelogs(**fields), branch=branch)

    def rollback(self, branch: str = MAIN, **fields: Any) -> RollbackResult:
        return self.run(Rollback(**fields), branch=branch)

    def delete_branch(self, name: str) -> BranchResult:
        return self.run(DeleteBranch(name))

    def fast_forward(self, name: str, *, may_fail: bool = False) -> BranchResult | None:
        try:
            return self.run(FastForward(name))
        except InvalidArgumentError:
            if not may_fail:
                raise
            return None

    def remove_orphans(self) -> RemoveOrphanFilesResult:
        """Removes what nothing names, however young; the clock advances to now for that.

        It confirms that all versions are visible: the store's clock is ahead of the commits'.
        """
        return self.run(RemoveOrphanFiles(self.long_after(), confirm_latest_snapshot=self.latest() or 0))

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
        self._main = super().on()

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def ids(self, branch: str = MAIN) -> list[int]:
        return snapshot_ids(self.on(branch))

    def latest(self, branch: str = MAIN) -> int | None:
        return latest_snapshot_id(self.on(branch))

    def tags(self, branch: str = MAIN) -> list[str]:
        return tag_names(self.on(branch))

    def stored(self) -> set[str]:
        """Data and metadata files in the store."""
        walked = (info.path for info in self.storage.walk(self.root))
        return {path for path in walked if any(part in path for part in ("/bucket-", "/manifest/", "/statistics/"))}

    def names(self) -> set[str]:
        """Names of the made-up data files in the store."""
        return {path.rpartition("/")[2][: -len(".orc")] for path in self.stored() if path.endswith(".orc")}

    def reachable(self) -> set[str]:
        """Data and metadata files that some snapshot, tag or changelog of some branch needs."""
        return {f"{self.root}/{path}" for path in Reach(self.storage, self.root).all_needed()}

    def assert_sound(self) -> None:
        """Everything needed is there, and fits together; data files are not read."""
        assert_sound(self.handle, footers=False)

    def assert_exact(self) -> None:
        """Everything needed is there, and nothing else."""
        self.assert_sound()
        assert self.stored() == self.reachable()


def everything(history: History) -> dict[str, bytes]:
    """Every file of the table and what is in it, hints and notes of restores apart."""
    found = (info.path for info in history.storage.walk(ROOT))
    apart = re.compile(r"/(LATEST|EARLIEST)$|\.restored\.json")
    return {path: history.storage.read(path) for path in found if apart.search(path) is None}
