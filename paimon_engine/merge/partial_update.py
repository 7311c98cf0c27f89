"""partial-update: each column takes its newest value that is not null; sequence groups have their own order.

1. A column outside of groups takes the value of the newest add in which it is not null, or aggregates all adds.
2. A version with null in all columns that order a group does not change the group. Another version applies to the
   group if no earlier one is greater in these columns; nulls are smallest. The last version that applies gives all
   columns of the group, nulls too; if it is a retract, all of them but the ordering ones become null.
3. A column of a group with an aggregate function includes every version that rule 2 does not exclude: one that does
   not apply as an older value, and a retract is retracted.
4. A retract needs a sequence group or `partial-update.remove-record-on-delete`. With the latter a −D removes the row:
   only later versions count. A compaction may merge only the newer ones of a key's versions, and its result cannot say
   that older ones must be ignored. So if an add follows a −D in one merge, older versions in other files still count.
5. With `partial-update.remove-record-on-sequence-group` a −D that applies in one of these groups removes the row, too.
   A later version must not be less than the −D in the ordering columns of a group to apply there. All other columns
   begin with null again. Without a later add the −D itself is the result. In Java up to 1.3 the order begins again as
   well, and from 1.4 on the values of the −D return with the next add: both give other results if the same versions
   are merged in other steps, which is not so here.

Example with a group that `g` orders; `a` is outside of it ('merge-engine' = 'partial-update',
'fields.g.sequence-group' = 'b,c'):

    write   k=1 a=1    g=5    b='x'  c=10
    write   k=1 a=null g=3    b='y'  c=20      (3 is less than 5: the group stays)
    write   k=1 a=2    g=null b='z'  c=30      (no order: only `a` changes)
    write   k=1 a=null g=6    b=null c=40      (applies, with its null)
    row     k=1 a=2    g=6    b=null c=40

Example of a −D that removes the row ('merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'b',
'partial-update.remove-record-on-sequence-group' = 'g'):

    write   k=1 a=1    g=5    b='x'
    write   -D k=1 a=null g=7 b=null
    write   k=1 a=2    g=6    b='y'            (6 is less than the 7 of the −D: only `a` changes)
    row     k=1 a=2    g=7    b=null

Example of a function in a group ('merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'b,c',
'fields.c.aggregate-function' = 'sum'):

    write   k=1 g=5 b='x' c=10
    write   k=1 g=3 b='y' c=20                 (too old for `b`; the sum includes it)
    row     k=1 g=5 b='x' c=30

Follows `merge-engine` = `partial-update` in the Paimon documentation (primary-key-table/merge-engine/partial-update).
Versions that only retract give a row here where there is a sequence group, as in Paimon 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.merge.aggregate import Aggregate, aggregates, check_columns
from paimon_engine.merge.equality import distances_from_least, joined_codes
from paimon_engine.merge.gather import validity
from paimon_engine.merge.versions import (
    DELETE,
    INSERT,
    UPDATE_BEFORE,
    Kinds,
    Mask,
    Merged,
    Step,
    Versions,
    merge_versions,
    put_back,
)
from paimon_engine.merge.window import Positions, Window, ranks
from paimon_engine.meta.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from paimon_engine.options import TableOptions


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """The columns `by` order the versions of themselves and of `members`."""

    by: tuple[str, ...]
    members: tuple[str, ...]


class PartialUpdate:
    """The merge function of a table with `merge-engine` = `partial-update`."""

    def __init__(self, schema: TableSchema, *, lone: bool = False) -> None:
        """With `lone`, keys with a single version are merged too.

        Raises: InvalidArgumentError naming the option that is not allowed.
        """
        self._lone = lone
        options = schema.table_options
        self._keys = frozenset(schema.primary_keys)
        self._required = frozenset(field.name for field in schema.row_type if not field.type.nullable)
        self._groups = sequence_groups(schema)
        self._ordered = frozenset(name for group in self._groups for name in group.by)
        self._aggregates = _group_aggregates(schema, self._ordered)
        self._removes = options.partial_update_remove_record_on_delete
        self._removing = removing_groups(schema, self._groups)
        if self._removes and (self._groups or options.ignore_delete):
            other = "a sequence group" if self._groups else "'ignore-delete'"
            raise InvalidArgumentError(f"'partial-update.remove-record-on-delete' does not go together with {other}")

    def __call__(self, window: Window) -> pa.RecordBatch:
        """One row per key: rows[n] → rows[k], in key order.

        Raises: InvalidArgumentError for a retract that the options do not allow for.
        """
        return merge_versions(window, self._merge, self._required, lone=self._lone)

    def _merge(self, versions: Versions) -> tuple[Mapping[str, Merged], Kinds]:
        """The merged columns and the row kind of each key, by rules 1 to 5."""
        others = {SEQUENCE_NUMBER, VALUE_KIND, *self._keys}
        names = [name for name in versions.rows.schema.names if name not in others]
        if versions.retracts.any() and not self._groups:
            return self._with_removed(versions, names)
        kinds = np.full(len(versions.starts), INSERT, dtype=np.int8)
        delete = _removals(versions, self._removing)
        alive, removers = versions, None
        if (delete >= 0).any():
            # With the −D itself, which later versions must not be less than.
            alive = versions.since(np.maximum(delete, versions.starts))
            removers = np.isin(alive.positions, versions.at(delete))
        merged = self._ungrouped(alive, names)
        for group in self._groups:
            present = [name for name in (*group.by, *group.members) if name in names]
            if present:
                merged.update(self._grouped(alive, group, present, removers))
        # No add after the −D: it is the result, with the values that it was written with.
        gone = (delete >= 0) & (alive.last(~alive.retracts) < 0)
        if gone.any():
            kinds[gone] = DELETE
            stored = versions.at(delete)
            merged = {name: put_back(versions, column, name, gone, stored) for name, column in merged.items()}
        return merged, kinds

    def _ungrouped(self, versions: Versions, names: list[str]) -> dict[str, Merged]:
        """Rule 1 for the columns that are in no group: positions of values per key, or aggregated values."""
        grouped = {name for group in self._groups for name in (*group.by, *group.members)}
        adds = versions.only(~versions.retracts)
        merged: dict[str, Merged] = {}
        for name in names:
            if name not in grouped:
                function = self._aggregates.get(name)
                if function is not None:
                    merged[name] = function(adds)
                    continue
                # A position must be that of a row: if all adds have null, that of the newest one.
                merged[name] = adds.newest_valid(name)
        return merged

    def _grouped(
        self, versions: Versions, group: SequenceGroup, present: list[str], removers: Mask | None
    ) -> dict[str, Merged]:
        """The columns `present` of a group, by rules 2 and 3; `removers` are the −D that removed the rows of keys.

        Those count in the order of the group, but aggregate functions do not retract them: what they removed is not
        among the versions.
        """
        order = _lexicographic(versions, group.by)
        counts = order > 0
        counted = versions.only(counts)
        applies = _not_below_older_rows(counted, order[np.flatnonzero(counts)])
        winner = counted.last(applies)
        newest = counted.at(winner)
        retracted = counted.retracts
        # A winner of −1 reads the flag of the last row, which does not matter: both values are −1 then.
        chosen = np.where(retracted[winner], -1, newest) if retracted.any() else newest
        merged: dict[str, Merged] = {name: newest if name in group.by else chosen for name in present}
        aggregated = [name for name in present if name in self._aggregates]
        if aggregated:
            below = np.where(applies, counted.steps, Step.ADD_BELOW).astype(np.int8)
            stepped = counted.with_steps(np.where(retracted, Step.RETRACT, below).astype(np.int8))
            if removers is not None:
                stepped = stepped.only(~removers[counts])
            merged.update({name: self._aggregates[name](stepped) for name in aggregated})
        return merged

    def _with_removed(self, versions: Versions, names: list[str]) -> tuple[Mapping[str, Merged], Kinds]:
        """Merges retracts where there is no sequence group: a −D removes the row, a −U does nothing."""
        if not self._removes:
            raise InvalidArgumentError(
                "'merge-engine' = 'partial-update' takes no -U or -D unless an option says what they do: "
                "'ignore-delete' = 'true' drops them, 'partial-update.remove-record-on-delete' = 'true' lets a -D "
                "remove its row, 'fields.<column>.sequence-group' = '<columns>' lets them retract these columns"
            )
        delete = versions.last(versions.kinds == DELETE)
        begin = np.maximum(delete + 1, versions.starts)
        alive = versions.only((np.arange(len(versions)) >= begin[versions.keys]) & ~versions.retracts)
        merged = self._ungrouped(alive, names)
        # A key without a row keeps its −D, or a −U, which has no effect in the next merge either.
        gone = alive.ends == alive.starts
        last = versions.at(np.where(delete >= 0, delete, versions.ends - 1))
        kinds = np.where(gone, np.where(delete >= 0, DELETE, UPDATE_BEFORE), INSERT).astype(np.int8)
        return {name: np.where(gone, last, _positions(column)) for name, column in merged.items()}, kinds


def _positions(column: Merged) -> Positions:
    assert isinstance(column, np.ndarray), "without sequence groups nothing is aggregated"
    return column


def _lexicographic(versions: Versions, columns: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Rank of each row by those columns, from 1 on; 0 where all of them are null."""
    # So that a rank together with the number of its key, as `_not_below_older_rows` joins them, fits into 64 bits.
    span_max = (1 << 62) // (len(versions) + len(versions.starts) + 1)
    ranked = []
    for name in columns:
        values = versions.values(name)
        distances = distances_from_least(values, span_max)
        if distances is None:
            distances = np.where(validity(values), ranks(values, descending=False), 0)
        ranked.append(distances)
    some = np.logical_or.reduce([distances > 0 for distances in ranked])
    return np.where(some, joined_codes(ranked, len(versions)) + 1, 0)


def _removals(versions: Versions, groups: Sequence[SequenceGroup]) -> Positions:
    """Per key the index of the last −D that removes the row by one of the groups, −1 if there is none."""
    removal = np.full(len(versions.starts), -1)
    deletes = versions.kinds == DELETE
    if not groups or not deletes.any():
        return removal
    orders = [_lexicographic(versions, group.by) for group in groups]
    # A −D also ends the order of the other groups, so whether a later −D applies depends on the removals before it:
    # with several groups each turn of the loop finds the next removal. With one group the last one is found at once.
    pick = versions.last if len(groups) == 1 else versions.first
    indices, begin = np.arange(len(versions)), versions.starts
    while True:
        open_ = indices >= begin[versions.keys]
        applies = np.zeros(len(versions), dtype=bool)
        for order in orders:
            applies |= (order > 0) & _not_below_older_rows(versions, np.where(open_, order, 0))
        # The removal found last is compared with, but not found again.
        found = pick(applies & deletes & open_ & (indices > removal[versions.keys]))
        if (found < 0).all():
            return removal
        removal = np.where(found >= 0, found, removal)
        begin = np.where(found >= 0, found, begin)


def _not_below_older_rows(versions: Versions, order: npt.NDArray[np.int64]) -> Mask:
    """Which rows have a rank that no older row of their key exceeds."""
    if not len(versions):
        return np.zeros(0, dtype=bool)
    # Every number of a key is greater than all of the keys before, so one running maximum is right for all keys.
    above = versions.keys * (int(order.max()) + 1) + order
    return np.asarray(np.maximum.accumulate(above) == above)


# ── options ─────────────────────────────────────────────────────────────────────────────────────


def sequence_groups(schema: TableSchema) -> tuple[SequenceGroup, ...]:
    """The sequence groups of a table.

    Raises: InvalidArgumentError naming a column that is missing, in two groups or aggregated.
    """
    groups = tuple(SequenceGroup(by, members) for by, members in schema.table_options.sequence_groups)
    owner: dict[str, SequenceGroup] = {}
    for group in groups:
        check_columns(schema, (*group.by, *group.members), f"{_spelled(group)}")
        # Columns of the primary key are equal in all versions of a key: they order nothing, and groups may share them.
        columns = [name for name in group.by if name not in schema.primary_keys]
        for name in (*columns, *(name for name in group.members if name not in group.by)):
            if name in owner:
                raise InvalidArgumentError(
                    f"column {name!r} is in two sequence groups, {_spelled(owner[name])} and {_spelled(group)}; "
                    "a column belongs to one"
                )
            owner[name] = group
    wrong = sorted({name for group in groups for name in group.by} & schema.table_options.aggregate_functions.keys())
    if wrong:
        raise InvalidArgumentError(
            f"column {wrong[0]!r} orders a sequence group, so it takes no 'fields.{wrong[0]}.aggregate-function'"
        )
    return groups


def removing_groups(schema: TableSchema, groups: Sequence[SequenceGroup]) -> tuple[SequenceGroup, ...]:
    """The groups in which a −D removes the row.

    Raises: InvalidArgumentError naming a column that orders no group.
    """
    option = "'partial-update.remove-record-on-sequence-group'"
    columns = schema.table_options.partial_update_remove_record_on_sequence_group
    if columns and schema.table_options.ignore_delete:
        raise InvalidArgumentError(f"{option} does not go together with 'ignore-delete'; leave one of them out")
    ordering = [name for group in groups for name in group.by]
    wrong = [name for name in columns if name not in ordering]
    if wrong:
        there = f"columns that do are {', '.join(ordering)}" if ordering else "the table has none"
        raise InvalidArgumentError(f"{option}: column {wrong[0]!r} orders no sequence group; {there}")
    return tuple(group for group in groups if set(group.by) & set(columns))


def _spelled(group: SequenceGroup) -> str:
    return f"'fields.{','.join(group.by)}.sequence-group'"


def _group_aggregates(schema: TableSchema, ordering: frozenset[str]) -> Mapping[str, Aggregate]:
    options: TableOptions = schema.table_options
    functions = options.aggregate_functions
    if not ordering:
        if functions or options.default_aggregate_function is not None:
            raise InvalidArgumentError(
                "aggregate functions in a 'partial-update' table need a sequence group: "
                "set 'fields.<column>.sequence-group' = '<columns>', or use 'merge-engine' = 'aggregation'"
            )
        return {}
    return aggregates(schema, [field.name for field in schema.row_type if field.name not in ordering])
