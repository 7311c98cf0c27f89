"""Merge engines row by row, in plain Python: what the columnar merge functions must agree with.

A row is a dictionary of the table's columns; a record is a row with its kind. Values are Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
RETRACTS = {"-U", "-D"}


@dataclass(frozen=True)
class Record:
    """One version of the key in column `k`."""

    kind: str
    row: Row


def last_value(acc: Any, value: Any) -> Any:
    del acc
    return value


def last_non_null_value(acc: Any, value: Any) -> Any:
    return acc if value is None else value


def skipping_nulls(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def combined(acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return combine(acc, value)

    return combined


def by_id(acc: list[Row], value: list[Row]) -> list[Row]:
    return sorted({row["id"]: row for row in [*acc, *value]}.values(), key=lambda row: row["id"])


def texts_once(acc: str | None, value: str | None) -> str | None:
    """`listagg` with `distinct`: parts that are there already, or blank, are left out."""
    if value is None or not value.strip():
        return acc
    if acc is None:
        return value
    there = acc.split(",")
    for part in value.split(","):
        if part.strip() and part not in there:
            there.append(part)
            acc = f"{acc},{part}"
    return acc


ADD: Mapping[str, Callable[[Any, Any], Any]] = {
    "sum": skipping_nulls(lambda acc, value: acc + value),
    "product": skipping_nulls(lambda acc, value: acc * value),
    "max": skipping_nulls(max),
    "min": skipping_nulls(min),
    "bool_and": skipping_nulls(lambda acc, value: acc and value),
    "bool_or": skipping_nulls(lambda acc, value: acc or value),
    "last_value": last_value,
    "last_non_null_value": last_non_null_value,
    "first_non_null_value": skipping_nulls(lambda acc, _: acc),
    "listagg": skipping_nulls(lambda acc, value: f"{acc},{value}"),
    "listagg distinct": texts_once,
    "collect": skipping_nulls(lambda acc, value: [*acc, *value]),
    "merge_map": skipping_nulls(lambda acc, value: sorted({**dict(acc), **dict(value)}.items())),
    "nested_update": skipping_nulls(by_id),
}
TAKE_BACK: Mapping[str, Callable[[Any, Any], Any]] = {
    "sum": lambda acc, value: acc if value is None else (acc or 0) - value,
    "last_value": lambda _acc, _value: None,
    "last_non_null_value": lambda acc, value: acc if value is None else None,
    "merge_map": lambda acc, value: (
        acc if acc is None or value is None else [entry for entry in acc if entry[0] not in dict(value)]
    ),
}


def aggregated(records: Sequence[Record], functions: Mapping[str, str], *, removes: bool = False) -> tuple[str, Row]:
    """One key's records, oldest first, by the function of each column; a record alone stays as it is."""
    if len(records) == 1:
        return records[0].kind, records[0].row
    row: Row = dict.fromkeys(functions)
    if removes and records[-1].kind == "-D":
        return "-D", records[-1].row
    for record in records:
        if removes and record.kind == "-D":
            row = dict.fromkeys(functions)
            continue
        table = TAKE_BACK if record.kind in RETRACTS else ADD
        for column, name in functions.items():
            row[column] = table[name](row[column], record.row[column])
    return "+I", {"k": records[-1].row["k"], **row}


@dataclass(frozen=True)
class Group:
    """A sequence group: ordering columns, and the functions (None: take over) of the columns that they order."""

    by: tuple[str, ...]
    members: Mapping[str, str | None]


@dataclass
class PartialUpdate:
    """One key of a partial-update table."""

    groups: Sequence[Group]
    plain: Sequence[str]
    removes: bool = False
    removing: Sequence[Group] = ()
    row: Row = field(default_factory=dict)

    def merged(self, records: Sequence[Record]) -> tuple[str, Row]:
        """The key's records, oldest first; a record alone stays as it is."""
        if len(records) == 1:
            return records[0].kind, records[0].row
        names = [*self.plain, *(name for group in self.groups for name in (*group.by, *group.members))]
        self.row = dict.fromkeys(names)
        deleted: Record | None = None
        has_add = False
        for record in records:
            if record.kind in RETRACTS and self.removes:
                if record.kind == "-D":
                    self.row, deleted, has_add = dict.fromkeys(names), record, False
                continue
            if record.kind == "-D" and any(self._applies(group, record) for group in self.removing):
                order = {name: record.row[name] for group in self.groups for name in group.by}
                self.row, deleted, has_add = {**dict.fromkeys(names), **order}, record, False
                continue
            has_add = has_add or record.kind not in RETRACTS or not self.removing or deleted is None
            if record.kind not in RETRACTS:
                for name in self.plain:
                    self.row[name] = last_non_null_value(self.row[name], record.row[name])
            for group in self.groups:
                self._apply(group, record)
        if not has_add:
            return ("-D", deleted.row) if deleted else (records[-1].kind, records[-1].row)
        return "+I", {"k": records[-1].row["k"], **self.row}

    def _applies(self, group: Group, record: Record) -> bool:
        if all(record.row[name] is None for name in group.by):
            return False
        new, old = (_age([row[name] for name in group.by]) for row in (record.row, self.row))
        return new >= old

    def _apply(self, group: Group, record: Record) -> None:
        if all(record.row[name] is None for name in group.by):
            return
        new, old = (_age([row[name] for name in group.by]) for row in (record.row, self.row))
        for name, function in group.members.items():
            value, acc = record.row[name], self.row[name]
            if record.kind in RETRACTS:
                if function is not None:
                    self.row[name] = TAKE_BACK[function](acc, value)
                elif new >= old:
                    self.row[name] = None
            elif new >= old:
                self.row[name] = value if function is None else ADD[function](acc, value)
            elif function is not None:
                self.row[name] = ADD[function](value, acc)
        if new >= old:
            self.row.update({name: record.row[name] for name in group.by})


def _age(values: Sequence[Any]) -> list[tuple[bool, Any]]:
    return [(value is not None, value or 0) for value in values]
