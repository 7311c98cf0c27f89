"""Which partitions of a chain table the rows of a partition are made of.

Source: `ChainGroupReadTable`, `ChainTableUtils` of the Java library.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.format.binary_row import decode_row, row_order
from paimon_engine.meta.schema import TableSchema
from paimon_engine.options.chain import CHAIN_KEYS

ChainOrder = tuple[Any, ...]


class ChainLinks:
    """Which partitions the rows of one are made of."""

    def __init__(self, schema: TableSchema, complete: Iterable[bytes], delta: Iterable[bytes]) -> None:
        """Raises: InvalidArgumentError if the keys of the chain are not the last partition keys."""
        keys = schema.table_options.chain_partition_keys or schema.partition_keys
        self._first = len(schema.partition_keys) - len(keys)
        if self._first < 0 or schema.partition_keys[self._first :] != tuple(keys):
            raise InvalidArgumentError(
                f"'{CHAIN_KEYS}' = '{','.join(keys)}': these are not the last of the partition keys "
                f"{', '.join(schema.partition_keys)}; set the option so"
            )
        self._types = [field.type for field in schema.partition_type]
        self._complete, self._delta = self._by_group(complete), self._by_group(delta)

    def of(self, partition: bytes) -> tuple[bytes | None, list[bytes]]:
        """The anchor of a partition, None without one, and the partitions of changes after it, up to this one."""
        group, end = self.place(partition)
        before = self._complete.get(group, [])
        index = bisect_left(before, end, key=_place)
        changes = self._delta.get(group, [])
        begin = bisect_right(changes, before[index - 1][0], key=_place) if index else 0
        links = [one for _, one in changes[begin : bisect_right(changes, end, key=_place)]]
        return (before[index - 1][1] if index else None), links

    def _by_group(self, partitions: Iterable[bytes]) -> dict[ChainOrder, list[tuple[ChainOrder, bytes]]]:
        found: dict[ChainOrder, list[tuple[ChainOrder, bytes]]] = defaultdict(list)
        for partition in partitions:
            group, place = self.place(partition)
            found[group].append((place, partition))
        return {group: sorted(members) for group, members in found.items()}

    def place(self, partition: bytes) -> tuple[ChainOrder, ChainOrder]:
        """The group of a partition, and its place in it."""
        order = row_order(decode_row(self._types, partition))
        return order[: self._first], order[self._first :]


def _place(member: tuple[ChainOrder, bytes]) -> ChainOrder:
    return member[0]
