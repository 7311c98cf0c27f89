"""Functions over nested tables row by row, as the columnar ones must work. Rows are dictionaries, maps lists of pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.merge.engine_model import Row, skipping_nulls

Rows = list[Row | None] | None
Pairs = list[tuple[str, Row | None]] | None


def counted_rows(rows: Rows, key: Sequence[str], nulls: str) -> list[Row]:
    present = [row for row in rows or () if row is not None]
    return [row for row in present if nulls != "ignore" or all(row[name] is not None for name in key)]


def _age(row: Row, names: Sequence[str]) -> list[tuple[bool, Any]]:
    return [(row[name] is not None, row[name] or 0) for name in names]


def nested_update(
    key: Sequence[str] = (), *, limit: int = 1000, sequence: Sequence[str] = (), nulls: str = "merge"
) -> Callable[[Rows, Rows], Rows]:
    def added(acc: Rows, value: Rows) -> Rows:
        if acc is None and value is None:
            return None
        old, new = counted_rows(acc, key, nulls), counted_rows(value, key, nulls)
        if not key:
            return [*old, *new[: max(0, limit - len(old))]]
        table: dict[tuple[Any, ...], Row] = {}
        for row in old:
            _put(table, row)
        for row in new:
            if tuple(row[name] for name in key) in table or len(table) < limit:
                _put(table, row)
        return list(table.values())

    def _put(table: dict[tuple[Any, ...], Row], row: Row) -> None:
        name = tuple(row[part] for part in key)
        if name not in table or _age(row, sequence) >= _age(table[name], sequence):
            table[name] = row

    return added


def nested_take_back(key: Sequence[str] = (), *, nulls: str = "merge") -> Callable[[Rows, Rows], Rows]:
    def taken(acc: Rows, value: Rows) -> Rows:
        if acc is None or value is None:
            return acc
        old, gone = counted_rows(acc, key, nulls), counted_rows(value, key, nulls)
        if not key:
            return [row for row in old if row not in gone]
        table = {tuple(row[name] for name in key): row for row in old}
        for row in gone:
            table.pop(tuple(row[name] for name in key), None)
        return list(table.values())

    return taken


def nested_partial_update(key: Sequence[str], *, nulls: str = "merge") -> Callable[[Rows, Rows], Rows]:
    def added(acc: Rows, value: Rows) -> Rows:
        if acc is None and value is None:
            return None
        table: dict[tuple[Any, ...], Row] = {}
        for row in [*counted_rows(acc, key, nulls), *counted_rows(value, key, nulls)]:
            there = table.setdefault(tuple(row[name] for name in key), dict.fromkeys(row))
            there.update({name: item for name, item in row.items() if item is not None})
        return list(table.values())

    return added


def _units(text: str | None) -> bytes:
    return b"" if text is None else text.encode("utf-16-be")


def _map_with_key_time(acc: list[tuple[str, Row | None]], value: list[tuple[str, Row | None]]) -> Any:
    entries = dict(acc)
    for key, row in value:
        if row is None:
            entries.pop(key, None)
            continue
        there = entries.get(key)
        if row["ts"] is not None and (there is None or _units(row["ts"]) > _units(there["ts"])):
            entries[key] = row
    return sorted(entries.items())


map_with_key_time = skipping_nulls(_map_with_key_time)
