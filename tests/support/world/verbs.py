"""What is done to a table: each verb does it to the table, as a job, and to the model at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine import Table
from paimon_engine.action import Context
from paimon_engine.action_table import ACTIONS, Action, name_of
from paimon_engine.actions.branches import CreateBranch, DeleteBranch, FastForward, RenameBranch
from paimon_engine.actions.delete_rows import DeleteRows
from paimon_engine.actions.drop_partition import DropPartition
from paimon_engine.actions.rollback import Rollback
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.actions.tags import CreateTag, DeleteTag, RenameTag
from paimon_engine.actions.write import Write
from tests.support.world.kinds import Kind
from tests.support.world.model import BranchModel, Change, Model, Row, RowChange, Rows
from tests.support.world.world import MAIN

_KIND_COLUMN = "kind"


@dataclass(frozen=True)
class Put:
    """Rows to be written: with their kinds, if these are told, and what they replace."""

    changes: Sequence[RowChange]
    overwrite: Mapping[str, Any] | None = None
    tells_kinds: bool = False
    watermark: int | None = None

    @property
    def kinds(self) -> list[str] | None:
        return [kind for kind, _ in self.changes] if self.tells_kinds else None

    def arrow(self, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_pylist([row for _, row in self.changes], schema)

    def job(self, schema: pa.Schema, path: str) -> Write:
        """The job that writes them from a Parquet file, which is made."""
        rows = self.arrow(schema)
        if self.tells_kinds:
            rows = rows.append_column(_KIND_COLUMN, pa.array(self.kinds))
        pq.write_table(rows, path)
        kind_column = _KIND_COLUMN if self.tells_kinds else None
        return Write(path, overwrite=self.overwrite, row_kind_column=kind_column)


def _nothing(_model: Model) -> None:
    """All stays what it is."""


@dataclass(frozen=True)
class Verb:
    """`spec` is the job, `change` what becomes of the rows of the branch, and `effect` of all else in the model.

    `passes_through`: a reader may meanwhile see rows that are neither those before nor those after.
    """

    name: str
    spec: Action | Put
    change: Change | None = None
    effect: Callable[[Model], None] = _nothing
    branch: str = MAIN
    passes_through: bool = False

    def on(self, table: Table, user: str | None = None) -> Any:
        """Does it to the table; the result."""
        if isinstance(self.spec, Put):
            put = self.spec
            rows = put.arrow(table.arrow_schema)
            return table.write(rows, put.kinds, put.overwrite, commit_user=user, watermark=put.watermark)
        return ACTIONS[name_of(self.spec)].run(Context(table._handle, table._executor, user), self.spec)

    def in_model(self, model: Model) -> None:
        """Does it to the model."""
        if self.change is not None:
            branch = model.branch(self.branch)
            rows = self.change.apply(branch.rows)
            assert rows is not None
            branch.rows = rows
        self.effect(model)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────


def write(kind: Kind, put: Put, branch: str = MAIN, *, keeps_order: bool | None = None) -> Verb:
    """New rows; if they overwrite, those of their partitions go."""
    keys = kind.primary_keys or kind.schema.names
    touched = {tuple(row[name] for name in keys) for _, row in put.changes}
    replaced = {tuple(row[name] for name in kind.partition_keys) for _, row in put.changes}

    def goes(row: Row) -> bool:
        return put.overwrite is not None and tuple(row[name] for name in kind.partition_keys) in replaced

    change = Change(
        lambda before: before.without(goes).after(put.changes),
        lambda row: goes(row) or tuple(row[name] for name in keys) in touched,
        bool(kind.primary_keys) if keeps_order is None else keeps_order,
    )
    return Verb("write" if put.overwrite is None else "overwrite", put, change, branch=branch)


def _gone(goes: Callable[[Row], bool], *, keeps_order: bool = True) -> Change:
    return Change(lambda before: before.without(goes), goes, keeps_order)


def delete_rows(where: str, goes: Callable[[Row], bool]) -> Verb:
    """The rows go of which the condition holds, in SQL and in Python."""
    return Verb("delete rows", DeleteRows(where), _gone(goes))


def drop_partition(column: str, value: str, *, keeps_order: bool = False) -> Verb:
    spec = DropPartition([{column: value}])
    return Verb("drop partition", spec, _gone(lambda row: bool(row[column] == value), keeps_order=keeps_order))


def expire_partitions(spec: Action, goes: Callable[[Row], bool]) -> Verb:
    return Verb("expire partitions", spec, _gone(goes))


def same_rows(name: str, spec: Action, *, shows_all: bool = False) -> Verb:
    """What changes no rows."""
    return Verb(name, spec, Change(lambda before: before, lambda _: False, keeps_order=False, shows_all=shows_all))


def other_rows(name: str, spec: Action, rows: Callable[[Rows], Rows | None], *, shows_all: bool = False) -> Verb:
    """All rows become those."""
    return Verb(name, spec, Change(rows, lambda _: True, keeps_order=False, shows_all=shows_all))


# ── tags ────────────────────────────────────────────────────────────────────────────────────────


def create_tag(name: str, snapshot: int, *, replaces: bool = False) -> Verb:
    def effect(model: Model) -> None:
        model.main.tag(name, snapshot, model.main.at[snapshot])

    if replaces:
        return Verb("replace tag", CreateTag(name, snapshot, if_exists="replace"), effect=effect)
    return Verb("create tag", CreateTag(name, snapshot), effect=effect)


def rename_tag(name: str, to: str) -> Verb:
    def effect(model: Model) -> None:
        model.main.tag(to, model.main.tags[name], model.main.tagged[name])
        model.main.untag(name)

    return Verb("rename tag", RenameTag(name, to), effect=effect)


def delete_tag(name: str) -> Verb:
    return Verb("delete tag", DeleteTag(name), effect=lambda model: model.main.untag(name))


# ── going back ──────────────────────────────────────────────────────────────────────────────────


def roll_back(snapshot: int) -> Verb:
    def effect(model: Model) -> None:
        model.main.back_to(snapshot, model.main.at[snapshot])

    return Verb("roll back", Rollback(snapshot), effect=effect, passes_through=True)


def roll_back_to_tag(name: str) -> Verb:
    def effect(model: Model) -> None:
        model.main.back_to(model.main.tags[name], model.main.tagged[name])

    return Verb("roll back to tag", Rollback(tag=name), effect=effect, passes_through=True)


def as_latest(snapshot: int) -> Verb:
    def effect(model: Model) -> None:
        model.main.rows = model.main.at[snapshot]

    return Verb("roll back as latest", RollbackToAsLatest(snapshot), effect=effect)


# ── branches ────────────────────────────────────────────────────────────────────────────────────


def create_branch(name: str, tag: str | None, snapshot: int) -> Verb:
    """Of the tag, which is on that snapshot, or of the snapshot."""

    def effect(model: Model) -> None:
        rows = model.main.tagged[tag] if tag is not None else model.main.at[snapshot]
        branch = BranchModel(rows, {snapshot: rows})
        if tag is not None:
            branch.tag(tag, snapshot, rows)
        model.branches[name], model.made_from[name] = branch, tag

    spec = CreateBranch(name, tag, None if tag is not None else snapshot, "ignore")
    return Verb("create branch", spec, effect=effect)


def rename_branch(name: str, to: str) -> Verb:
    def effect(model: Model) -> None:
        model.branches[to] = model.branches.pop(name)
        model.made_from[to] = model.made_from.pop(name)

    return Verb("rename branch", RenameBranch(name, to), effect=effect)


def delete_branch(name: str) -> Verb:
    def effect(model: Model) -> None:
        del model.branches[name], model.made_from[name]

    return Verb("delete branch", DeleteBranch(name), effect=effect)


def fast_forward(name: str) -> Verb:
    spec = FastForward(name)
    return Verb("fast-forward", spec, effect=lambda model: model.forward(name), passes_through=True)
