"""Histories of a table: what may happen to it. `acting` says how, `upkeep` has the rules of maintenance,
`using` those of users."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from paimon_engine import Table, UnsupportedError
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.drop_partition import ExpirePartitions
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.meta.schema_change import AddColumn, RemoveOption, SetOption
from tests.life_cycle.acting import CHANGES, HOW, PICK, action, has_branch, has_snapshot, has_tag
from tests.life_cycle.in_parts import InParts
from tests.life_cycle.upkeep import Upkeep
from tests.life_cycle.using import Using
from tests.life_cycle.world import line_name
from tests.support.world import HOUR_MS, MAIN, verbs
from tests.support.world.kinds import DATES
from tests.support.world.model import Row, Rows

TAGS = ("a", "b", "c", "d")
BRANCHES = ("dev", "test")
CONSUMERS = ("one", "two")
LIMITS = (
    ("snapshot.expire.limit", "1"),
    ("snapshot.expire.limit", "50"),
    ("snapshot.num-retained.max", "3"),
    ("snapshot.time-retained", "2 h"),
    ("consumer.expiration-time", "2 h"),
    ("changelog.num-retained.max", "5"),
)
"""Options of expiry."""


class LifeCycle(Upkeep, InParts, Using):
    """One history of one table; subclasses choose its kind and may look at the end of it."""

    # ── rows ────────────────────────────────────────────────────────────────────────────────────

    @action(writes=True, drawn=CHANGES, marks=st.booleans())
    def write(self, table: Table, drawn: Sequence[Any], marks: bool) -> Any:
        put = self.put(table, drawn, watermark=self.world.now_ms if marks else None)
        return self.world.do(verbs.write(self.kind, put), table)

    @action(writes=True, drawn=CHANGES)
    def write_more(self, table: Table, drawn: Sequence[Any]) -> Any:
        return self.world.do(verbs.write(self.kind, self.put(table, drawn)), table)

    @action(writes=True, when=lambda self: not self.kind.moves_keys, drawn=CHANGES, static=st.booleans())
    def overwrite(self, table: Table, drawn: Sequence[Any], static: bool) -> Any:
        first = drawn[0][1]
        static = static and bool(self.kind.partition_keys)
        chosen = [("+I", first if static else one[1], *one[2:]) for one in drawn]
        put = self.put(table, chosen, overwrite={"dt": first} if static else {})
        return self.world.do(verbs.write(self.kind, put, keeps_order=True), table)

    @action(writes=True, when=lambda self: self.kind.marks_rows and not self.kind.primary_keys, k=st.integers(0, 7))
    def delete_rows(self, table: Table, k: int) -> Any:
        return self.world.do(verbs.delete_rows(f"k = {k}", lambda row: bool(row["k"] == k)), table)

    @action(writes=True, when=lambda self: bool(self.kind.partition_keys), date=st.sampled_from(DATES))
    def drop_partition(self, table: Table, date: str) -> Any:
        return self.world.do(verbs.drop_partition("dt", date, keeps_order=self.kind.hides), table)

    @action(writes=True, when=lambda self: bool(self.kind.partition_keys), days=st.integers(1, 6))
    def expire_partitions(self, table: Table, days: int) -> Any:
        def limit() -> datetime:
            return datetime.fromtimestamp(self.world.now_ms / 1000) - timedelta(days=days)

        begun = limit()

        def goes(row: Row) -> bool:
            return datetime.fromisoformat(row["dt"]) < begun

        def may_go(row: Row) -> bool:
            """A job that is stopped before it has looked at the clock counts from later."""
            return datetime.fromisoformat(row["dt"]) < limit()

        verb = verbs.expire_partitions(ExpirePartitions(timedelta(days=days)), goes)
        assert verb.change is not None
        verb.change.touches = may_go
        verb.change.apply = lambda before: (
            None if any(may_go(row) and not goes(row) for row in before.rows) else before.without(goes)
        )
        return self.world.do(verb, table)

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    @action(when=has_snapshot, writes=True, full=st.booleans())
    def compact(self, table: Table, full: bool) -> Any:
        return self.world.do(verbs.same_rows("compact", Compact(full=full), shows_all=full), table)

    @action(when=has_snapshot, writes=True, full=st.booleans())
    def compact_more(self, table: Table, full: bool) -> Any:
        return self.world.do(verbs.same_rows("compact", Compact(full=full), shows_all=full), table)

    @action(writes=True, when=lambda self: self.kind.is_fixed, buckets=st.integers(1, 3))
    def rescale(self, table: Table, buckets: int) -> Any:
        table.alter([SetOption("bucket", str(buckets))])
        return table.rescale(commit_user=f"rescale-{self.world.new_id()}")

    @action(when=has_snapshot, writes=True)
    def rewrite_file_index(self, table: Table) -> Any:
        return table.rewrite_file_index(commit_user=f"index-{self.world.new_id()}")

    @action(when=has_snapshot, writes=True)
    def compact_manifests(self, table: Table) -> Any:
        return table.compact_manifests(commit_user=f"manifests-{self.world.new_id()}")

    @action(when=has_snapshot, writes=True)
    def analyze(self, table: Table) -> Any:
        return table.analyze(commit_user=f"analyze-{self.world.new_id()}")

    @action(writes=True, what=st.integers(0, 3 + len(LIMITS)))
    def alter(self, table: Table, what: int) -> Any:
        names = [field.name for field in table.arrow_schema if field.name.startswith("x")]
        if what == 0 and len(names) < 2:
            return table.alter([AddColumn(f"x{len(names)}", "BIGINT")])
        if what == 1:
            return table.alter([SetOption("file-index.bitmap.columns", "w")])
        if what > 3:
            return table.alter([SetOption(*LIMITS[what - 4])])
        if what == 2:
            return table.alter([SetOption("file-index.in-manifest-threshold", "1 b")])
        return table.alter([RemoveOption("file-index.bitmap.columns")])

    # ── tags ────────────────────────────────────────────────────────────────────────────────────

    @action(
        when=has_snapshot,
        name=st.sampled_from(TAGS),
        number=PICK,
        if_exists=st.sampled_from(["verify", "ignore", "replace", "error"]),
        way=st.integers(0, 3),
        hours=st.one_of(st.none(), st.integers(1, 4)),
    )
    def create_tag(self, table: Table, name: str, number: int, if_exists: Any, way: int, hours: int | None) -> Any:
        snapshot = self._snapshot(table, number)
        if snapshot is None:
            return None
        ways: list[dict[str, int]] = [
            {"snapshot": snapshot},
            {},
            {"timestamp": self.world.now_ms - number * HOUR_MS // 4},
            {"watermark": self.world.now_ms - number * HOUR_MS // 4},
        ]
        retained = None if hours is None else hours * HOUR_MS
        return table.create_tag(name, **ways[way], if_exists=if_exists, time_retained=retained)

    @action(when=has_tag, number=PICK, to=st.sampled_from(TAGS))
    def rename_tag(self, table: Table, number: int, to: str) -> Any:
        tag = self._tag(table, number)
        return None if tag is None else table.rename_tag(tag, to)

    @action(when=has_tag, number=PICK, how=HOW)
    def delete_tag(self, table: Table, number: int, how: Any) -> Any:
        tag = self._tag(table, number)
        return None if tag is None else table.delete_tag(tag, **how)

    @action(when=has_snapshot, hours=st.one_of(st.none(), st.integers(0, 30)), how=HOW)
    def expire_tags(self, table: Table, hours: int | None, how: Any) -> Any:
        return table.expire_tags(None if hours is None else self.world.now_ms - hours * HOUR_MS, **how)

    @action(when=has_snapshot)
    def create_due_tags(self, table: Table) -> Any:
        return table.create_due_tags()

    # ── branches ────────────────────────────────────────────────────────────────────────────────

    @action(name=st.sampled_from(BRANCHES), number=PICK, way=st.integers(0, 6), ignore=st.booleans())
    def create_branch(self, table: Table, name: str, number: int, way: int, ignore: bool) -> Any:
        main = self.world.table(MAIN)
        tag, snapshot = self._tag(main, number), self._snapshot(main, number)
        given: dict[str, Any] = {}
        if way > 0:
            given = {"tag": tag} if tag is not None and way % 2 else {"snapshot": snapshot}
        free = [other for other in BRANCHES if other not in self.world.branches()]
        name = free[0] if free and not ignore else name
        return table.create_branch(name, **given, if_exists="ignore" if ignore else "error")

    @action(exclusive=True, when=has_branch, number=PICK, to=st.sampled_from(BRANCHES))
    def rename_branch(self, table: Table, number: int, to: str) -> Any:
        name = self._branch(number)
        if name is None:
            return None
        self.world.forget(name)
        return table.rename_branch(name, to)

    @action(exclusive=True, when=has_branch, number=PICK, how=HOW)
    def delete_branch(self, table: Table, number: int, how: Any) -> Any:
        name = self._branch(number)
        if name is None:
            return None
        return table.delete_branch(name, **how)

    # Where schemas would be lost too, nothing could be restored.
    @action(exclusive=True, when=has_branch, number=PICK, how=HOW, may=(UnsupportedError,))
    def fast_forward(self, table: Table, number: int, how: Any) -> Any:
        name = self._branch(number)
        if name is None:
            return None
        self.world.forget(MAIN)
        return self.world.table(MAIN).fast_forward(name, **how)

    # ── going back, expiry, clean-up ────────────────────────────────────────────────────────────

    @action(when=has_snapshot, exclusive=True, number=PICK, way=st.integers(0, 3), how=HOW)
    def rollback(self, table: Table, number: int, way: int, how: Any) -> Any:
        given = self._target(table, number, way)
        return None if given is None else table.rollback(**given, **how)

    @action(when=has_snapshot, writes=True, number=PICK, way=st.integers(0, 1))
    def rollback_to_as_latest(self, table: Table, number: int, way: int) -> Any:
        given = self._target(table, number, way)
        if given is None:
            return None
        versions = self.world.versions(line_name(table), "tag" if "tag" in given else "snapshot")
        target = next(one.commit for one in versions if one.name == str(given.get("tag", given.get("snapshot"))))

        def after(_: Rows) -> Rows | None:
            """It is unknown where a tag that others move meanwhile was when it was read."""
            tags = self.world.versions(line_name(table), "tag")
            is_there = any(one.name == given.get("tag") and one.commit == target for one in tags)
            return self.world.states[target] if is_there or "tag" not in given else None

        return self.world.do(verbs.other_rows("roll back as latest", RollbackToAsLatest(**given), after), table)

    def _target(self, table: Table, number: int, way: int) -> dict[str, Any] | None:
        if way == 1:
            tag = self._tag(table, number)
            return None if tag is None else {"tag": tag}
        moment = self.world.now_ms - number * HOUR_MS // 8
        if way > 1:
            return {"timestamp" if way == 2 else "watermark": moment}
        snapshot = self._snapshot(table, number % 6)
        return None if snapshot is None else {"snapshot": snapshot}

    @action(
        when=has_snapshot,
        most=st.one_of(st.none(), st.integers(1, 3)),
        least=st.one_of(st.none(), st.integers(1, 2)),
        hours=st.one_of(st.none(), st.integers(0, 3)),
        dry_run=st.sampled_from([False, False, True]),
        how=HOW,
    )
    def expire_snapshots(
        self, table: Table, most: int | None, least: int | None, hours: int | None, dry_run: bool, how: Any
    ) -> Any:
        older_than = None if hours is None else self.world.now_ms - hours * HOUR_MS
        return table.expire_snapshots(most, least, older_than, dry_run, **how)

    @action(when=has_snapshot, most=st.integers(1, 2), how=HOW)
    def expire_many(self, table: Table, most: int, how: Any) -> Any:
        return table.expire_snapshots(retain_max=most, **how)

    @action(
        when=lambda self: any(version.kind == "changelog" for version in self.world.reach.versions()),
        most=st.one_of(st.none(), st.integers(1, 5)),
        hours=st.one_of(st.none(), st.integers(0, 5)),
        way=st.sampled_from(["some", "some", "all", "dry"]),
        how=HOW,
    )
    def expire_changelogs(self, table: Table, most: int | None, hours: int | None, way: str, how: Any) -> Any:
        older_than = None if hours is None else self.world.now_ms - hours * HOUR_MS
        least = None if most is None else 1
        return table.expire_changelogs(most, least, older_than, delete_all=way == "all", dry_run=way == "dry", **how)

    @action(when=has_snapshot, name=st.sampled_from(CONSUMERS), number=PICK, forget=st.booleans())
    def reset_consumer(self, table: Table, name: str, number: int, forget: bool) -> Any:
        snapshot = self._snapshot(table, number)
        return None if snapshot is None else table.reset_consumer(name, None if forget else snapshot)

    @action(when=has_snapshot, way=st.integers(0, 1), hours=st.integers(0, 30))
    def forget_consumers(self, table: Table, way: int, hours: int) -> Any:
        return table.clear_consumers("o.*") if way else table.expire_consumers(self.world.now_ms - hours * HOUR_MS)

    @action(when=has_snapshot, dry_run=st.sampled_from([False, False, True]), how=HOW)
    def remove_orphan_files(self, table: Table, dry_run: bool, how: Any) -> Any:
        older_than = self.world.oldest_work_ms
        return table.remove_orphan_files(older_than=older_than, dry_run=dry_run, **how)
