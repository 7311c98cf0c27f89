"""Actions of histories by those who use a table: reading it while others change it, updating columns, tags of days."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_engine import Table
from paimon_engine.meta.schema import ROW_ID
from tests.life_cycle.acting import PICK, Acting, action, has_snapshot, has_tag
from tests.life_cycle.world import line_name
from tests.support.world.model import Change, Row, Rows


class Using(Acting):
    """The rules of users."""

    @action(when=has_snapshot, number=PICK, way=st.sampled_from(["latest", "snapshot"]))
    def read(self, table: Table, number: int, way: str) -> Any:
        snapshot = self._snapshot(table, number) if way == "snapshot" else None
        return self._read(table, {} if snapshot is None else {"snapshot": snapshot})

    @action(when=has_tag, number=PICK)
    def read_tag(self, table: Table, number: int) -> Any:
        tag = self._tag(table, number)
        return None if tag is None else self._read(table, {"tag": tag})

    def _read(self, table: Table, at: dict[str, Any]) -> pa.Table:
        """The rows, which must be those of some version, whatever others do meanwhile."""
        found = table.to_arrow(**at)
        names = found.column_names
        rows = Rows(self.kind, found.to_pylist()).counted(names)
        known = (Rows(self.kind, seen.to_pylist()).counted(names) for seen in self.world.seen.values())
        assert not rows or rows in known, f"{line_name(table)} at {at}: {rows} is no state of it"
        return found

    @action(
        writes=True, when=lambda self: has_snapshot(self) and self.kind.splits_rows, k=PICK, v=st.integers(100, 199)
    )
    def update_columns(self, table: Table, k: int, v: int) -> Any:
        """Gives all rows with that key another value."""
        k %= 8

        def is_one(row: Row) -> bool:
            return bool(row["k"] == k)

        def after(before: Rows) -> Rows:
            return Rows(self.kind, [{**row, "v": v} if is_one(row) else row for row in before.rows])

        user = self.world.user(line_name(table), Change(after, is_one))
        ids = Table(table._handle, table._executor, "row_tracking").to_arrow([ROW_ID], f"k = {k}")[ROW_ID]
        return table.update_columns(
            pa.table({ROW_ID: ids, "v": pa.array([v] * len(ids), pa.int64())}), commit_user=user
        )

    @action(when=has_snapshot, days=st.integers(0, 3), dry_run=st.sampled_from([False, False, True]))
    def create_day_tags(self, table: Table, days: int, dry_run: bool) -> Any:
        since = None if days == 0 else f"2024-01-{6 + days:02d}"
        return table.create_day_tags(since, dry_run=dry_run)
