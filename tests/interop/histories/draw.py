"""Random programs: a table, and writes, compactions, schema changes, option changes, tags and deletes on it."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.interop.histories import values
from tests.interop.histories.option_changes import of_files, of_modes
from tests.interop.histories.program import Program, Step
from tests.interop.histories.tables import Column, Draw, crosses_partitions, draw_table

CASTS = {
    "SMALLINT": ["INT", "BIGINT", "DOUBLE", "STRING"],
    "INT": ["BIGINT", "DECIMAL(20, 0)", "STRING"],
    "BIGINT": ["DECIMAL(20, 0)", "STRING"],
    "DECIMAL(10, 2)": ["STRING"],
}
"""Type changes that lose nothing, however the values are read."""
MIXING = ("distinct", "nested-key")
"""Options of columns whose merged elements have no defined order."""


def draw_program(seed: int) -> Program:
    """The program of a seed."""
    chance = Random(f"history {seed}")
    draw = draw_table(chance)
    fields = [(name, column.kind) for name, column in draw.columns.items()]
    options = dict(draw.options)
    unordered = [name for name in draw.columns if {f"fields.{name}.{key}" for key in MIXING} & options.keys()]
    steps = _Steps(draw).drawn(chance.randint(3, 8))
    for step in steps:
        step["by"] = chance.choice(["java", "here"])
    return Program(
        name=f"seed {seed}",
        fields=fields,
        primary_keys=draw.primary_keys,
        partition_keys=draw.partition_keys,
        options=options,
        steps=steps,
        unordered=unordered,
        picks_are_certain=draw.picks_are_certain,
        looks_back=chance.random() < 0.7,
    )


class _Steps:
    """The steps of one program, and what they have made of the table so far."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.chance = draw.chance
        self.tags = 0
        self.added = 0
        self.removed: set[str] = set()
        self.written: set[str] = set()
        self.is_begun = False
        """Whether there are rows for sure."""

    def drawn(self, count: int) -> list[Step]:
        """That many steps, and a full compaction at the end of most programs."""
        steps = [self.write()]
        for _ in range(count):
            drawn = self.chance.random()
            if drawn < 0.44:
                steps.append(self.write())
            elif drawn < 0.67:
                steps.append(self.compact())
            elif drawn < 0.75:
                steps += self.alter()
            elif drawn < 0.88:
                steps += self.switch()
            elif drawn < 0.94:
                self.tags += 1
                steps.append({"op": "tag", "tag": f"t{self.tags}"})
            else:
                steps += self.delete()
        return [*steps, *([self.compact(full=True)] if self.chance.random() < 0.7 else [])]

    # ── rows ────────────────────────────────────────────────────────────────────────────────────

    def write(self) -> Step:
        """Rows of a few keys; this step or the next ones write the same keys again."""
        count = self.chance.choice([1, 3, 6, 12])
        once = self.draw.removes_on_delete
        rows = self._rows_that_go_once(count) if once else [self._row() for _ in range(count)]
        if self.draw.adds_first:
            rows = self._added_first(rows)
        self.is_begun |= any(row[0] == "+I" for row in rows) and self.draw.kind_column is None
        step: Step = {"op": "write", "kinds": True, "rows": rows}
        if self.chance.random() < 0.06 and self._may_overwrite():
            step["overwrite"] = {}
        return step

    def _may_overwrite(self) -> bool:
        once = self.draw.removes_on_delete or self.draw.adds_first
        options = self.draw.options
        # After an overwrite keys may get other buckets than in Java 0.9. These are generated where it matters whether a
        # compaction reads a row that is alone: groups may take its values, its time may be over, or a changelog begins
        # with it.
        tells = any(key.endswith(".sequence-group") for key in options) or "record-level.time-field" in options
        tells |= options.get("changelog-producer") == "full-compaction"
        return not crosses_partitions(self.draw) and not once and not (tells and options["bucket"] == "-1")

    def _row(self) -> list[Any]:
        kind = self.chance.choice(self.draw.kinds)
        row = [self._value(name, column) for name, column in self.draw.columns.items()]
        if self.draw.kind_column is not None:
            # In Java 0.9 small letters do as well.
            row[list(self.draw.columns).index(self.draw.kind_column)] = self.chance.choice([kind, kind, kind.lower()])
            kind = "+I"
        return [kind, *row]

    def _value(self, name: str, column: Column) -> Any:
        if name in ("k", "k2", "p") and column.kind.split()[0] in values.INTEGERS:
            return self.chance.randrange({"k": 8, "k2": 2, "p": 2}[name]) if column.nulls else None
        if name == "p":
            return (
                None if self.chance.random() < column.nulls and "NOT" not in column.kind else self.chance.choice("uv")
            )
        return column.value(self.chance)

    def _key(self, row: list[Any]) -> str:
        return repr([row[1 + list(self.draw.columns).index(name)] for name in self.draw.primary_keys])

    def _added_first(self, rows: list[list[Any]]) -> list[list[Any]]:
        """The rows, as inserts where a retract would be merged with others before it is merged with what it retracts."""
        added, here = [], set()
        for row in rows:
            key = self._key(row)
            alone = key in self.written and sum(self._key(other) == key for other in rows) == 1
            added.append(row if key in here or alone else ["+I", *row[1:]])
            here.add(key)
        self.written |= here
        return added

    def _rows_that_go_once(self, count: int) -> list[list[Any]]:
        """Rows of a table whose deletes remove rows.

        Java 0.9 fails when a row comes after its delete in one merge, and forgets a delete that merges with an older
        row of its batch or of a part of the levels: so a deleted key is only written again after a full compaction.
        """
        rows = []
        here: set[str] = set()
        for _ in range(count):
            row = self._row()
            key = self._key(row)
            if key in self.removed or (row[0] == "-D" and (key in here or key not in self.written)):
                continue
            if row[0] == "-U" and (key in here or key not in self.written):
                continue
            here.add(key)
            rows.append(row)
            if row[0] == "-D":
                self.removed.add(key)
        self.written |= here
        return rows or [["+I", *self._fresh()]]

    def _fresh(self) -> list[Any]:
        while True:
            row = self._row()
            if self._key(row) not in self.removed:
                self.written.add(self._key(row))
                return row[1:]

    # ── compactions, deletes ────────────────────────────────────────────────────────────────────

    def compact(self, *, full: bool | None = None) -> Step:
        """A minor or full compaction; ours sometimes in small tasks."""
        if full is None:
            whole = self.draw.removes_on_delete or (self.draw.adds_first and not self.draw.is_lookup)
            full = whole or self.chance.random() < 0.35
            # Which runs a minor one takes decides when the changelog of this producer has a change.
            full = full or (
                self.draw.options.get("changelog-producer") == "full-compaction" and not self.draw.picks_are_certain
            )
            # A row that comes late by its columns leaves the order of the older row above as it was: with lookups, Java
            # 0.9 then has two records of one order in two levels, reads either, and may lose the late row.
            adds = self.draw.engine in ("partial-update", "aggregation") and "sequence.field" in self.draw.options
            full = full or (adds and self.draw.is_lookup)
            # So it does, with lookups, whether a row that is alone is read, and loses what a group of nulls leaves out.
            groups = any(key.endswith(".sequence-group") for key in self.draw.options)
            # Nor does it count a retract as newer than the row above, so that two records again have one order.
            full = full or (
                groups and self.draw.is_lookup and (not self.draw.picks_are_certain or "-D" in self.draw.kinds)
            )
            # Or which deletes were dropped: an older row that is written later, or a lone retract that is merged
            # with another one, shows it.
            full = full or (self._may_miss_deletes and not self.draw.picks_are_certain)
            # The choice of runs also decides which expired records are removed.
            full = full or ("record-level.time-field" in self.draw.options and not self.draw.picks_are_certain)
        if full:
            # Java 0.9 makes a row of nulls of two -U of a key that is not there.
            self.written -= self.removed
            self.removed.clear()
        step: Step = {"op": "compact", "full": full}
        if self.chance.random() < 0.3 and self.draw.primary_keys:
            step["limits"] = {"task_bytes": self.chance.choice([1, 1500])}
        return step

    @property
    def _may_miss_deletes(self) -> bool:
        """Whether rows depend on deletes that a compaction drops where it finds nothing older."""
        draw = self.draw
        takes_back = ("-D" in draw.kinds or draw.kind_column is not None) and not draw.ignores_deletes
        return takes_back and (draw.engine == "aggregation" or "sequence.field" in draw.options)

    def delete(self) -> list[Step]:
        """A delete of rows of an append table that has deletion vectors."""
        on = self.draw.options.get("deletion-vectors.enabled") == "true"
        if self.draw.engine != "append" or not on:
            return [self.write()]
        return [{"op": "delete", "column": "k", "value": self.chance.randrange(8)}]

    # ── schema and options ──────────────────────────────────────────────────────────────────────

    def alter(self) -> list[Step]:
        """Changes of one or two columns or options."""
        changes = []
        for _ in range(self.chance.randint(1, 2)):
            if self.chance.random() < 0.5:
                changes += of_files(self.draw, self.chance)
            elif change := self._change():
                changes.append(change)
        return [{"op": "alter", "changes": _each_option_once(changes)}] if changes else []

    def switch(self) -> list[Step]:
        """A change of what the levels mean, once there are rows; append tables have none, and often lose rows instead."""
        if self.draw.engine == "append" and self.chance.random() < 0.7:
            return self.delete()
        return of_modes(self.draw, self.chance) if self.is_begun else []

    def _change(self) -> dict[str, Any] | None:
        columns = self.draw.columns
        free = [name for name, column in columns.items() if column.is_free]
        kind = self.chance.choice(["add", "rename", "drop", "type", "nullable", "move"])
        if kind == "add":
            return self._add()
        if kind == "move" and len(columns) > 2:
            return self._move()
        if not free:
            return None
        name = self.chance.choice(free)
        match kind:
            case "rename":
                self.added += 1
                to = f"r{self.added}"
                self.draw.columns = {to if one == name else one: column for one, column in columns.items()}
                return {"change": "rename", "name": name, "to": to}
            case "drop":
                del columns[name]
                return {"change": "drop", "name": name}
            case "type" if columns[name].kind in CASTS:
                columns[name].kind = self.chance.choice(CASTS[columns[name].kind])
                return {"change": "type", "name": name, "type": columns[name].kind}
            case "nullable" if columns[name].nulls == 0:
                return {"change": "nullable", "name": name, "value": True}
            case _:
                return None

    def _add(self) -> dict[str, Any]:
        self.added += 1
        name, kind = f"n{self.added}", self.chance.choice(["INT", "STRING", "SMALLINT", "BOOLEAN", "DATE"])
        default = self.draw.options.get("fields.default-aggregate-function")
        if default == "max" and kind == "BOOLEAN":
            kind = "DATE"
        column = Column(kind, is_free=default is None)
        names = list(self.draw.columns)
        place = self.chance.choice(["last", "first", "after"])
        change = {"change": "add", "name": name, "type": kind}
        at = len(names)
        if place == "first":
            at, change["first"] = 0, True
        elif place == "after":
            after = self.chance.choice(names)
            at, change["after"] = names.index(after) + 1, after
        items = [*self.draw.columns.items()]
        items.insert(at, (name, column))
        self.draw.columns = dict(items)
        return change

    def _move(self) -> dict[str, Any] | None:
        name = self.chance.choice(list(self.draw.columns))
        others = [one for one in self.draw.columns if one != name]
        if self.chance.random() < 0.4:
            if next(iter(self.draw.columns)) == name:
                return None
            order, change = [name, *others], {"first": True}
        else:
            after = self.chance.choice(others)
            at = others.index(after) + 1
            order, change = [*others[:at], name, *others[at:]], {"after": after}
        self.draw.columns = {one: self.draw.columns[one] for one in order}
        return {"change": "move", "name": name, **change}


def _each_option_once(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes, of each option the last one: Java 2.0 leaves out one that sets the value of before the alter."""
    last = {
        change["name"]: index
        for index, change in enumerate(changes)
        if change["change"] in ("set_option", "remove_option")
    }
    return [change for index, change in enumerate(changes) if last.get(change["name"], index) == index]
