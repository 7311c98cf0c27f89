"""Random steps: a job for the table, and what it makes of the model."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine import SetOption
from paimon_engine.action_table import Action
from paimon_engine.actions.alter_table import AlterTable
from paimon_engine.actions.analyze import Analyze
from paimon_engine.actions.branches import CreateBranch, DeleteBranch, FastForward, RenameBranch
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.compact_manifests import CompactManifests
from paimon_engine.actions.consumers import ClearConsumers, ResetConsumer
from paimon_engine.actions.delete_rows import DeleteRows
from paimon_engine.actions.drop_partition import DropPartition
from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.mark_partition_done import MarkPartitionDone
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.actions.rescale import Rescale
from paimon_engine.actions.rollback import Rollback
from paimon_engine.actions.rollback_to_as_latest import RollbackToAsLatest
from paimon_engine.actions.tags import CreateTag, DeleteTag, RenameTag
from paimon_engine.actions.write import Write
from tests.crash.model import Model, Rows

PARTITIONS = ("a", "b", "c")
COLUMNS = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])


@dataclass(frozen=True)
class Step:
    """`action`, or a write of `source` to a `branch`; `apply` does to the model what it does to the table."""

    name: str
    apply: Callable[[Model], None]
    action: Action | None = None
    branch: str | None = None
    source: str | None = None
    passes_through: bool = False
    """Whether a reader may meanwhile see rows that are neither those before nor those after."""


class Steps:
    """Draws steps that fit the model."""

    def __init__(self, chance: random.Random, directory: Path, *, keyed: bool, fixed: bool) -> None:
        self._chance = chance
        self._directory = directory
        self._keyed = keyed
        self._fixed = fixed
        self._number = 0
        self._next_key = 0

    def draw(self, model: Model) -> Step:
        """A step; writes are the most frequent."""
        self._number += 1
        ways: list[tuple[int, Callable[[Model], Step | None]]] = [
            (8, self._write),
            (2, self._overwrite),
            (2, self._delete),
            (4, self._compact),
            (3, self._create_tag),
            (2, self._replace_tag),
            (2, self._rename_tag),
            (2, self._delete_tag),
            (4, self._expire),
            (2, self._roll_back),
            (1, self._roll_back_to_tag),
            (2, self._as_latest),
            (2, self._create_branch),
            (3, self._write_branch),
            (1, self._rename_branch),
            (1, self._delete_branch),
            (1, self._forward),
            (1, self._drop),
            (2, self._remove_orphans),
            (1, self._tidy),
            (1, self._alter),
            (1, self._rescale),
        ]
        while True:
            way = self._chance.choices([way for _, way in ways], [weight for weight, _ in ways])[0]
            step = way(model) if model.main.at or way == self._write else None
            if step is not None:
                return step

    # ── rows ────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, model_rows: Rows, p: str) -> Rows:
        """New rows of a partition; on keyed tables some of keys that are there."""
        count = self._chance.randint(1, 12)
        present = [key for key in model_rows if key[0] == p] if self._keyed else []
        keys = self._chance.sample(present, min(len(present), count // 2))
        for _ in range(count - len(keys)):
            self._next_key += 1
            keys.append((p, self._next_key))
        return dict.fromkeys(keys, self._number)

    def _source(self, rows: Rows, kind: str | None = None) -> str:
        path = self._directory / f"source-{self._number}.parquet"
        columns = [[p for p, _ in rows], [k for _, k in rows], list(rows.values())]
        table = pa.table(columns, schema=COLUMNS)
        if kind is not None:
            table = table.append_column("kind", pa.array([kind] * len(rows)))
        pq.write_table(table, path)
        return str(path)

    def _write(self, model: Model) -> Step:
        rows = self._rows(model.main.rows, self._chance.choice(PARTITIONS))
        return Step("write", lambda m: m.main.rows.update(rows), Write(self._source(rows)))

    def _overwrite(self, model: Model) -> Step:
        p = self._chance.choice(PARTITIONS)
        rows = self._rows({}, p)

        def apply(model: Model) -> None:
            model.main.rows = {key: value for key, value in model.main.rows.items() if key[0] != p} | rows

        how = self._chance.choice([{}, {"p": p}])
        return Step("overwrite", apply, Write(self._source(rows), overwrite=how))

    def _delete(self, model: Model) -> Step | None:
        keys = list(model.main.rows)
        if not keys:
            return None
        gone = dict.fromkeys(self._chance.sample(keys, min(len(keys), 4)), 0)

        def apply(model: Model) -> None:
            model.main.rows = {key: value for key, value in model.main.rows.items() if key not in gone}

        if not self._keyed:
            return Step("delete rows", apply, DeleteRows(f"k IN ({', '.join(str(k) for _, k in gone)})"))
        return Step("delete", apply, Write(self._source(gone, "-D"), row_kind_column="kind"))

    def _compact(self, _model: Model) -> Step:
        spec = self._chance.choice([Compact(full=True), Compact(full=True, round_bytes=1), Compact()])
        return Step("compact", _nothing, spec)

    def _drop(self, model: Model) -> Step:
        p = self._chance.choice(PARTITIONS)

        def apply(model: Model) -> None:
            model.main.rows = {key: value for key, value in model.main.rows.items() if key[0] != p}

        return Step("drop partition", apply, DropPartition([{"p": p}]))

    # ── tags ────────────────────────────────────────────────────────────────────────────────────

    def _create_tag(self, model: Model) -> Step:
        name = f"t{self._number}"
        snapshot = self._chance.choice(list(model.main.at))
        return Step("create tag", lambda m: m.main.tag(name, snapshot, m.main.at[snapshot]), CreateTag(name, snapshot))

    def _free_tags(self, model: Model) -> list[str]:
        return [name for name in model.main.tags if name not in model.made_from.values()]

    def _replace_tag(self, model: Model) -> Step | None:
        names = self._free_tags(model)
        if not names:
            return None
        name, snapshot = self._chance.choice(names), self._chance.choice(list(model.main.at))
        spec = CreateTag(name, snapshot, if_exists="replace")
        return Step("replace tag", lambda m: m.main.tag(name, snapshot, m.main.at[snapshot]), spec)

    def _rename_tag(self, model: Model) -> Step | None:
        names = self._free_tags(model)
        if not names:
            return None
        name, to = self._chance.choice(names), f"r{self._number}"

        def apply(model: Model) -> None:
            model.main.tag(to, model.main.tags[name], model.main.tagged[name])
            model.main.untag(name)

        return Step("rename tag", apply, RenameTag(name, to))

    def _delete_tag(self, model: Model) -> Step | None:
        names = self._free_tags(model)
        if not names:
            return None
        name = self._chance.choice(names)
        return Step("delete tag", lambda m: m.main.untag(name), DeleteTag(name))

    # ── going back, and forgetting ──────────────────────────────────────────────────────────────

    def _expire(self, _model: Model) -> Step:
        spec = ExpireSnapshots(self._chance.randint(1, 5), 1, int(time.time() * 1000))
        return Step("expire", _nothing, spec)

    def _may_go_back_to(self, model: Model, snapshot: int) -> bool:
        return all(model.main.tags[tag] <= snapshot for tag in model.made_from.values() if tag in model.main.tags)

    def _roll_back(self, model: Model) -> Step | None:
        snapshot = self._chance.choice(list(model.main.at)[-4:])
        if not self._may_go_back_to(model, snapshot):
            return None
        return Step(
            "roll back",
            lambda m: m.main.back_to(snapshot, m.main.at[snapshot]),
            Rollback(snapshot),
            passes_through=True,
        )

    def _roll_back_to_tag(self, model: Model) -> Step | None:
        names = [name for name, number in model.main.tags.items() if self._may_go_back_to(model, number)]
        if not names:
            return None
        name = self._chance.choice(names)
        return Step(
            "roll back to tag",
            lambda m: m.main.back_to(m.main.tags[name], m.main.tagged[name]),
            Rollback(tag=name),
            passes_through=True,
        )

    def _as_latest(self, model: Model) -> Step:
        snapshot = self._chance.choice(list(model.main.at))

        def apply(model: Model) -> None:
            model.main.rows = dict(model.main.at[snapshot])

        return Step("roll back as latest", apply, RollbackToAsLatest(snapshot))

    def _remove_orphans(self, _model: Model) -> Step:
        spec = RemoveOrphanFiles(int(time.time() * 1000), quarantine=self._chance.random() < 0.3)
        return Step("remove orphans", _nothing, spec)

    # ── branches ────────────────────────────────────────────────────────────────────────────────

    def _create_branch(self, model: Model) -> Step | None:
        if len(model.branches) >= 2:
            return None
        name = f"b{self._number}"
        tags = list(model.main.tags)
        tag = self._chance.choice(tags) if tags and self._chance.random() < 0.6 else None
        snapshot = model.main.tags[tag] if tag is not None else self._chance.choice(list(model.main.at))

        def apply(model: Model) -> None:
            rows = model.main.tagged[tag] if tag is not None else model.main.at[snapshot]
            line = type(model.main)(dict(rows), {snapshot: dict(rows)})
            if tag is not None:
                line.tag(tag, snapshot, rows)
            model.branches[name], model.made_from[name] = line, tag

        spec = CreateBranch(name, tag, None if tag is not None else snapshot, "ignore")
        return Step("create branch", apply, spec)

    def _some_branch(self, model: Model) -> str | None:
        return self._chance.choice(list(model.branches)) if model.branches else None

    def _write_branch(self, model: Model) -> Step | None:
        name = self._some_branch(model)
        if name is None:
            return None
        rows = self._rows(model.branches[name].rows, self._chance.choice(PARTITIONS))
        return Step(
            "write to branch", lambda m: m.branches[name].rows.update(rows), branch=name, source=self._source(rows)
        )

    def _rename_branch(self, model: Model) -> Step | None:
        name, to = self._some_branch(model), f"c{self._number}"
        if name is None:
            return None

        def apply(model: Model) -> None:
            model.branches[to] = model.branches.pop(name)
            model.made_from[to] = model.made_from.pop(name)

        return Step("rename branch", apply, RenameBranch(name, to))

    def _delete_branch(self, model: Model) -> Step | None:
        name = self._some_branch(model)
        if name is None:
            return None

        def apply(model: Model) -> None:
            del model.branches[name], model.made_from[name]

        return Step("delete branch", apply, DeleteBranch(name))

    def _forward(self, model: Model) -> Step | None:
        name = self._some_branch(model)
        if name is None:
            return None
        begin = min(model.branches[name].at)
        below = [number for number in model.main.at if number < begin]
        others = [tag for other, tag in model.made_from.items() if other != name and tag is not None]
        if (below and max(below) != begin - 1) or any(model.main.tags.get(tag, 0) >= begin for tag in others):
            return None
        return Step("fast-forward", lambda m: m.forward(name), FastForward(name), passes_through=True)

    # ── the rest ────────────────────────────────────────────────────────────────────────────────

    def _tidy(self, model: Model) -> Step:
        specs: list[Any] = [CompactManifests(), Analyze(), ClearConsumers()]
        specs += [ResetConsumer("reader", max(model.main.at)), MarkPartitionDone([{"p": "a"}])]
        return Step("tidy", _nothing, self._chance.choice(specs))

    def _alter(self, _model: Model) -> Step:
        change = SetOption("snapshot.num-retained.max", str(100 + self._number))
        return Step("alter", _nothing, AlterTable([change]))

    def _rescale(self, _model: Model) -> Step | None:
        return Step("rescale", _nothing, Rescale()) if self._fixed else None


def _nothing(_model: Model) -> None:
    """The rows stay what they are."""
