"""Histories of a table: Hypothesis chooses what happens, who does it, and where they are stopped.

A rule is one function of a table, below; it runs as an actor (`stage`). `line` chooses main or a branch, `who` a handle
that was opened anew or earlier, `stop` the call of the store before which it is stopped (None: it runs to its end).
`writes` says that it commits; `exclusive` that nobody may commit meanwhile, as its docstring asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from paimon_engine import Table
from paimon_engine.meta.schema_change import AddColumn, RemoveOption, SetOption
from tests.life_cycle.kinds import DATES, KINDS, Kind
from tests.life_cycle.kinds import Change as RowChange
from tests.life_cycle.world import HOUR_MS, MAIN, Call, Change, World, one_thread

STOPS = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 80))
PICK = st.integers(0, 50)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["+I", "+I", "+I", "-D"]),
        st.sampled_from(DATES),
        st.integers(0, 7),
        st.one_of(st.none(), st.integers(0, 99)),
        st.one_of(st.none(), st.sampled_from("abc")),
    ),
    min_size=1,
    max_size=5,
)
TAGS = ("a", "b", "c", "d")
BRANCHES = ("dev", "test")
CONSUMERS = ("one", "two")


def action(
    *,
    writes: bool = False,
    exclusive: bool = False,
    may: tuple[type[Exception], ...] = (),
    when: Callable[[LifeCycle], bool] = lambda _: True,
    **strategies: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Makes a rule of a function of a table, which gives what the action said, or None if there was nothing to do."""

    def make(body: Callable[..., Any]) -> Any:
        def run(self: LifeCycle, line: int, who: int, stop: int | None, **drawn: Any) -> None:
            self.act(body, self.line_of(line), who, stop, drawn, writes=writes, exclusive=exclusive, may=may)

        run.__name__ = body.__name__
        made = rule(line=st.integers(0, 3), who=st.integers(0, 2), stop=STOPS, **strategies)(run)
        return precondition(when)(made)

    return make


def has_branch(machine: LifeCycle) -> bool:
    """Whether there is one."""
    return len(machine.world.lines()) > 1


def has_snapshot(machine: LifeCycle) -> bool:
    """Whether anything was committed."""
    return bool(machine.world.seen)


def has_tag(machine: LifeCycle) -> bool:
    """Whether there is one on any line."""
    return any(version.kind == "tag" for version in machine.world.reach.versions())


class LifeCycle(RuleBasedStateMachine):
    """One history of one table; subclasses choose its kind and may look at the end of it."""

    kind: Kind = KINDS[0]

    def __init__(self) -> None:
        super().__init__()
        self._one_thread = one_thread()
        self._one_thread.__enter__()
        self.world = World(self.kind)

    def act(
        self,
        body: Callable[..., Any],
        line: str,
        who: int,
        stop: int | None,
        drawn: dict[str, Any],
        *,
        writes: bool,
        exclusive: bool,
        may: tuple[type[Exception], ...],
    ) -> None:
        self.world.now_ms += 1_000
        table = self.world.table(line, who)
        call = Call(body.__name__, line, lambda: body(self, table, **drawn), writes, exclusive, may)
        if self.world.may_begin(call):
            self.world.begin(call, stop)

    def line_of(self, number: int) -> str:
        lines = self.world.lines()
        return lines[number - 1] if 0 < number <= len(lines) else MAIN

    def teardown(self) -> None:
        try:
            # After a failed step there is nothing more to be learnt.
            if not self.world.has_failed:
                self.world.finish()
                self.at_end()
        finally:
            self.world.dismiss()
            self._one_thread.__exit__(None, None, None)

    def at_end(self) -> None:
        """What else to look at."""

    # ── the stage ───────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.world.paused)
    @rule(number=PICK, stop=STOPS)
    def resume(self, number: int, stop: int | None) -> None:
        self.world.resume(number, stop)

    @precondition(lambda self: self.world.paused)
    @rule(number=PICK)
    def kill(self, number: int) -> None:
        self.world.kill(number)

    @rule(hours=st.sampled_from([1, 1, 3, 30]))
    def time_passes(self, hours: int) -> None:
        self.world.now_ms += hours * HOUR_MS

    # ── rows ────────────────────────────────────────────────────────────────────────────────────

    def _changes(self, table: Table, drawn: Sequence[Any]) -> tuple[pa.Table, list[str] | None, list[RowChange]]:
        kind, columns = self.world.kind, [field.name for field in table.arrow_schema]
        changes = []
        for row_kind, dt, k, v, w in drawn:
            row = {"dt": dt, "k": k, "v": v, "w": w, **{name: v for name in columns if name.startswith("x")}}
            changes.append((row_kind if kind.takes_deletes else "+I", row))
        rows = pa.Table.from_pylist([row for _, row in changes], table.arrow_schema)
        return rows, [row_kind for row_kind, _ in changes] if kind.takes_deletes else None, changes

    def _user(self, table: Table, change: Change) -> str:
        user = f"user-{self.world.new_id()}"
        change.base = self.world.latest(_line(table))
        self.world.changes[user] = change
        return user

    @action(writes=True, drawn=CHANGES, marks=st.booleans())
    def write(self, table: Table, drawn: Sequence[Any], marks: bool) -> Any:
        rows, kinds, changes = self._changes(table, drawn)
        keys = {tuple(row[name] for name in self.kind.primary_keys) for _, row in changes}
        change = Change(
            lambda before: before.after(changes),
            lambda row: tuple(row[name] for name in self.kind.primary_keys) in keys,
            keeps_order=bool(self.kind.primary_keys),
        )
        watermark = self.world.now_ms if marks else None
        return table.write(rows, kinds, commit_user=self._user(table, change), watermark=watermark)

    @action(writes=True, drawn=CHANGES)
    def write_more(self, table: Table, drawn: Sequence[Any]) -> Any:
        return LifeCycle._write(self, table, drawn)

    def _write(self, table: Table, drawn: Sequence[Any]) -> Any:
        rows, kinds, changes = self._changes(table, drawn)
        keys = {tuple(row[name] for name in self.kind.primary_keys) for _, row in changes}
        change = Change(
            lambda before: before.after(changes),
            lambda row: tuple(row[name] for name in self.kind.primary_keys) in keys,
            keeps_order=bool(self.kind.primary_keys),
        )
        return table.write(rows, kinds, commit_user=self._user(table, change))

    @action(writes=True, when=lambda self: not self.kind.moves_keys, drawn=CHANGES, static=st.booleans())
    def overwrite(self, table: Table, drawn: Sequence[Any], static: bool) -> Any:
        first = drawn[0][1]
        static = static and bool(self.kind.partition_keys)
        chosen = [("+I", first if static else one[1], *one[2:]) for one in drawn]
        rows, kinds, changes = self._changes(table, chosen)
        gone = {row["dt"] for _, row in changes}

        def is_replaced(row: dict[str, Any]) -> bool:
            return not self.kind.partition_keys or row["dt"] in gone

        change = Change(lambda before: before.without(is_replaced).after(changes), is_replaced)
        spec = {"dt": first} if static else {}
        return table.write(rows, kinds, spec, commit_user=self._user(table, change))

    @action(writes=True, when=lambda self: self.kind.marks_rows and not self.kind.primary_keys, k=st.integers(0, 7))
    def delete_rows(self, table: Table, k: int) -> Any:

        def goes(row: dict[str, Any]) -> bool:
            return row["k"] == k

        change = Change(lambda before: before.without(goes), goes)
        return table.delete(f"k = {k}", commit_user=self._user(table, change))

    @action(writes=True, when=lambda self: bool(self.kind.partition_keys), date=st.sampled_from(DATES))
    def drop_partition(self, table: Table, date: str) -> Any:

        def goes(row: dict[str, Any]) -> bool:
            return row["dt"] == date

        change = Change(lambda before: before.without(goes), goes, keeps_order=self.kind.hides)
        return table.drop_partition({"dt": date}, commit_user=self._user(table, change))

    @action(writes=True, when=lambda self: bool(self.kind.partition_keys), days=st.integers(1, 6))
    def expire_partitions(self, table: Table, days: int) -> Any:
        limit = datetime.fromtimestamp(self.world.now_ms / 1000) - timedelta(days=days)

        def goes(row: dict[str, Any]) -> bool:
            return datetime.fromisoformat(row["dt"]) < limit

        change = Change(lambda before: before.without(goes), goes)
        return table.expire_partitions(timedelta(days=days), commit_user=self._user(table, change))

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    @action(when=has_snapshot, writes=True, full=st.booleans())
    def compact(self, table: Table, full: bool) -> Any:
        change = Change(lambda before: before, lambda row: False, keeps_order=False, shows_all=full)
        return table.compact(full=full, commit_user=self._user(table, change))

    @action(when=has_snapshot, writes=True, full=st.booleans())
    def compact_more(self, table: Table, full: bool) -> Any:
        change = Change(lambda before: before, lambda row: False, keeps_order=False, shows_all=full)
        return table.compact(full=full, commit_user=self._user(table, change))

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

    @action(writes=True, what=st.integers(0, 3))
    def alter(self, table: Table, what: int) -> Any:
        names = [field.name for field in table.arrow_schema if field.name.startswith("x")]
        if what == 0 and len(names) < 2:
            return table.alter([AddColumn(f"x{len(names)}", "BIGINT")])
        if what == 1:
            return table.alter([SetOption("file-index.bitmap.columns", "w")])
        if what == 2:
            return table.alter([SetOption("file-index.in-manifest-threshold", "1 b")])
        return table.alter([RemoveOption("file-index.bitmap.columns")])

    # ── tags ────────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, table: Table, number: int) -> int | None:
        found = [int(version.name) for version in self.world.versions(_line(table), "snapshot")]
        return found[-1 - number % len(found)] if found else None

    def _tag(self, table: Table, number: int) -> str | None:
        found = [version.name for version in self.world.versions(_line(table), "tag")]
        return found[number % len(found)] if found else None

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
        return table.create_tag(name, **ways[way], if_exists=if_exists, time_retained_ms=retained)

    @action(when=has_tag, number=PICK, to=st.sampled_from(TAGS))
    def rename_tag(self, table: Table, number: int, to: str) -> Any:
        tag = self._tag(table, number)
        return None if tag is None else table.rename_tag(tag, to)

    @action(when=has_tag, number=PICK)
    def delete_tag(self, table: Table, number: int) -> Any:
        tag = self._tag(table, number)
        return None if tag is None else table.delete_tag(tag)

    @action(when=has_snapshot, hours=st.one_of(st.none(), st.integers(0, 30)))
    def expire_tags(self, table: Table, hours: int | None) -> Any:
        return table.expire_tags(None if hours is None else self.world.now_ms - hours * HOUR_MS)

    @action(when=has_snapshot)
    def create_due_tags(self, table: Table) -> Any:
        return table.create_due_tags()

    # ── branches ────────────────────────────────────────────────────────────────────────────────

    def _branch(self, number: int) -> str | None:
        found = self.world.lines()[1:]
        return found[number % len(found)] if found else None

    @action(name=st.sampled_from(BRANCHES), number=PICK, way=st.integers(0, 6), ignore=st.booleans())
    def create_branch(self, table: Table, name: str, number: int, way: int, ignore: bool) -> Any:
        main = self.world.table(MAIN)
        tag, snapshot = self._tag(main, number), self._snapshot(main, number)
        given: dict[str, Any] = {}
        if way > 0:
            given = {"tag": tag} if tag is not None and way % 2 else {"snapshot": snapshot}
        free = [other for other in BRANCHES if other not in self.world.lines()]
        name = free[0] if free and not ignore else name
        return table.create_branch(name, **given, if_exists="ignore" if ignore else "error")

    @action(exclusive=True, when=has_branch, number=PICK, to=st.sampled_from(BRANCHES))
    def rename_branch(self, table: Table, number: int, to: str) -> Any:
        name = self._branch(number)
        if name is None:
            return None
        self.world.forget(name)
        return table.rename_branch(name, to)

    @action(exclusive=True, when=has_branch, number=PICK)
    def delete_branch(self, table: Table, number: int) -> Any:
        name = self._branch(number)
        if name is None:
            return None
        self.world.forget(name)
        return table.delete_branch(name)

    @action(exclusive=True, when=has_branch, number=PICK)
    def fast_forward(self, table: Table, number: int) -> Any:
        name = self._branch(number)
        if name is None:
            return None
        self.world.forget(MAIN)
        return self.world.table(MAIN).fast_forward(name)

    # ── going back, expiry, clean-up ────────────────────────────────────────────────────────────

    @action(when=has_snapshot, exclusive=True, number=PICK, way=st.integers(0, 3))
    def rollback(self, table: Table, number: int, way: int) -> Any:
        given = self._target(table, number, way)
        return None if given is None else table.rollback(**given)

    @action(when=has_snapshot, writes=True, number=PICK, way=st.integers(0, 1))
    def rollback_to_as_latest(self, table: Table, number: int, way: int) -> Any:
        given = self._target(table, number, way)
        if given is None:
            return None
        versions = self.world.versions(_line(table), "tag" if "tag" in given else "snapshot")
        target = next(one.commit for one in versions if one.name == str(given.get("tag", given.get("snapshot"))))
        change = Change(lambda _: self.world.states[target], lambda row: True, keeps_order=False)
        return table.rollback_to_as_latest(**given, commit_user=self._user(table, change))

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
    )
    def expire_snapshots(
        self, table: Table, most: int | None, least: int | None, hours: int | None, dry_run: bool
    ) -> Any:
        older_than = None if hours is None else self.world.now_ms - hours * HOUR_MS
        return table.expire_snapshots(most, least, older_than, dry_run)

    @action(when=has_snapshot, most=st.integers(1, 2))
    def expire_many(self, table: Table, most: int) -> Any:
        return table.expire_snapshots(retain_max=most)

    @action(
        when=lambda self: any(version.kind == "changelog" for version in self.world.reach.versions()),
        most=st.one_of(st.none(), st.integers(1, 5)),
        hours=st.one_of(st.none(), st.integers(0, 5)),
        way=st.sampled_from(["some", "some", "all", "dry"]),
    )
    def expire_changelogs(self, table: Table, most: int | None, hours: int | None, way: str) -> Any:
        older_than = None if hours is None else self.world.now_ms - hours * HOUR_MS
        least = None if most is None else 1
        return table.expire_changelogs(most, least, older_than, delete_all=way == "all", dry_run=way == "dry")

    @action(when=has_snapshot, name=st.sampled_from(CONSUMERS), number=PICK, forget=st.booleans())
    def reset_consumer(self, table: Table, name: str, number: int, forget: bool) -> Any:
        snapshot = self._snapshot(table, number)
        return None if snapshot is None else table.reset_consumer(name, None if forget else snapshot)

    @action(when=has_snapshot, way=st.integers(0, 1), hours=st.integers(0, 30))
    def forget_consumers(self, table: Table, way: int, hours: int) -> Any:
        return table.clear_consumers("o.*") if way else table.expire_consumers(self.world.now_ms - hours * HOUR_MS)

    @action(when=has_snapshot, quarantine=st.booleans(), dry_run=st.sampled_from([False, False, True]))
    def remove_orphan_files(self, table: Table, quarantine: bool, dry_run: bool) -> Any:
        older_than = self.world.oldest_work_ms
        return table.remove_orphan_files(older_than=older_than, dry_run=dry_run, quarantine=quarantine)

    @action(when=lambda self: any("quarantine/" in path for path in self.world.reach.stored()), number=PICK)
    def restore_orphan_files(self, table: Table, number: int) -> Any:
        found = sorted({path.split("/")[1] for path in self.world.reach.stored() if path.startswith("quarantine/")})
        if not found:
            return None
        self.world.is_littered = True
        return table.restore(found[number % len(found)])


def _line(table: Table) -> str:
    return table._handle.paths.branch
