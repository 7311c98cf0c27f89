"""Random steps: verbs that fit what the table holds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from paimon_engine import SetOption
from paimon_engine.actions.alter_table import AlterTable
from paimon_engine.actions.analyze import Analyze
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.compact_manifests import CompactManifests
from paimon_engine.actions.consumers import ClearConsumers, ResetConsumer
from paimon_engine.actions.expire_snapshots import ExpireSnapshots
from paimon_engine.actions.mark_partition_done import MarkPartitionDone
from paimon_engine.actions.remove_orphan_files import RemoveOrphanFiles
from paimon_engine.actions.rescale import Rescale
from tests.support.world import MAIN, verbs
from tests.support.world.kinds import Kind
from tests.support.world.model import Model, RowChange
from tests.support.world.verbs import Put, Verb

PARTITIONS = ("a", "b", "c")


class Steps:
    """Draws steps that fit the model."""

    def __init__(self, chance: random.Random, kind: Kind) -> None:
        self._chance = chance
        self._kind = kind
        self._number = 0
        self._next_key = 0

    def draw(self, model: Model) -> Verb:
        """A step; writes are the most frequent."""
        self._number += 1
        ways: list[tuple[int, Callable[[Model], Verb | None]]] = [
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

    def _rows(self, model: Model, p: str, *, branch: str | None = None) -> list[RowChange]:
        """New rows of a partition; on keyed tables some of keys that are there, on that branch."""
        count = self._chance.randint(1, 12)
        present = [] if branch is None else [row["k"] for row in model.branch(branch).rows.rows if row["p"] == p]
        keys = self._chance.sample(present, min(len(present), count // 2)) if self._kind.primary_keys else []
        for _ in range(count - len(keys)):
            self._next_key += 1
            keys.append(self._next_key)
        return [("+I", {"p": p, "k": k, "v": self._number}) for k in keys]

    def _write(self, model: Model, branch: str = MAIN) -> Verb:
        rows = self._rows(model, self._chance.choice(PARTITIONS), branch=branch)
        return verbs.write(self._kind, Put(rows), branch)

    def _overwrite(self, model: Model) -> Verb:
        p = self._chance.choice(PARTITIONS)
        how = self._chance.choice([{}, {"p": p}])
        return verbs.write(self._kind, Put(self._rows(model, p), how))

    def _delete(self, model: Model) -> Verb | None:
        rows = model.main.rows.rows
        if not rows:
            return None
        gone = self._chance.sample(rows, min(len(rows), 4))
        if self._kind.primary_keys:
            return verbs.write(self._kind, Put([("-D", {**row, "v": 0}) for row in gone], tells_kinds=True))
        keys = [row["k"] for row in gone]
        return verbs.delete_rows(f"k IN ({', '.join(map(str, keys))})", lambda row: row["k"] in keys)

    def _compact(self, _model: Model) -> Verb:
        spec = self._chance.choice([Compact(full=True), Compact(full=True, round_bytes=1), Compact()])
        return Verb("compact", spec)

    def _drop(self, _model: Model) -> Verb:
        return verbs.drop_partition("p", self._chance.choice(PARTITIONS))

    # ── tags ────────────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, model: Model) -> int:
        return self._chance.choice(list(model.main.at))

    def _create_tag(self, model: Model) -> Verb:
        return verbs.create_tag(f"t{self._number}", self._snapshot(model))

    def _free_tag(self, model: Model) -> str | None:
        names = [name for name in model.main.tags if name not in model.made_from.values()]
        return self._chance.choice(names) if names else None

    def _replace_tag(self, model: Model) -> Verb | None:
        name = self._free_tag(model)
        return None if name is None else verbs.create_tag(name, self._snapshot(model), replaces=True)

    def _rename_tag(self, model: Model) -> Verb | None:
        name = self._free_tag(model)
        return None if name is None else verbs.rename_tag(name, f"r{self._number}")

    def _delete_tag(self, model: Model) -> Verb | None:
        name = self._free_tag(model)
        return None if name is None else verbs.delete_tag(name)

    # ── going back, and forgetting ──────────────────────────────────────────────────────────────

    def _expire(self, _model: Model) -> Verb:
        return Verb("expire", ExpireSnapshots(self._chance.randint(1, 5), 1, int(time.time() * 1000)))

    def _may_go_back_to(self, model: Model, snapshot: int) -> bool:
        return all(model.main.tags[tag] <= snapshot for tag in model.made_from.values() if tag in model.main.tags)

    def _roll_back(self, model: Model) -> Verb | None:
        snapshot = self._chance.choice(list(model.main.at)[-4:])
        return verbs.roll_back(snapshot) if self._may_go_back_to(model, snapshot) else None

    def _roll_back_to_tag(self, model: Model) -> Verb | None:
        names = [name for name, number in model.main.tags.items() if self._may_go_back_to(model, number)]
        return verbs.roll_back_to_tag(self._chance.choice(names)) if names else None

    def _as_latest(self, model: Model) -> Verb:
        return verbs.as_latest(self._snapshot(model))

    def _remove_orphans(self, _model: Model) -> Verb:
        spec = RemoveOrphanFiles(int(time.time() * 1000), quarantine=self._chance.random() < 0.3)
        return Verb("remove orphans", spec)

    # ── branches ────────────────────────────────────────────────────────────────────────────────

    def _create_branch(self, model: Model) -> Verb | None:
        if len(model.branches) >= 2:
            return None
        tags = list(model.main.tags)
        tag = self._chance.choice(tags) if tags and self._chance.random() < 0.6 else None
        snapshot = model.main.tags[tag] if tag is not None else self._snapshot(model)
        return verbs.create_branch(f"b{self._number}", tag, snapshot)

    def _some_branch(self, model: Model) -> str | None:
        return self._chance.choice(list(model.branches)) if model.branches else None

    def _write_branch(self, model: Model) -> Verb | None:
        name = self._some_branch(model)
        return None if name is None else self._write(model, name)

    def _rename_branch(self, model: Model) -> Verb | None:
        name = self._some_branch(model)
        return None if name is None else verbs.rename_branch(name, f"c{self._number}")

    def _delete_branch(self, model: Model) -> Verb | None:
        name = self._some_branch(model)
        return None if name is None else verbs.delete_branch(name)

    def _forward(self, model: Model) -> Verb | None:
        name = self._some_branch(model)
        if name is None:
            return None
        begin = min(model.branches[name].at)
        below = [number for number in model.main.at if number < begin]
        others = [tag for other, tag in model.made_from.items() if other != name and tag is not None]
        if (below and max(below) != begin - 1) or any(model.main.tags.get(tag, 0) >= begin for tag in others):
            return None
        return verbs.fast_forward(name)

    # ── the rest ────────────────────────────────────────────────────────────────────────────────

    def _tidy(self, model: Model) -> Verb:
        specs: list[Any] = [CompactManifests(), Analyze(), ClearConsumers()]
        specs += [ResetConsumer("reader", max(model.main.at)), MarkPartitionDone([{"p": "a"}])]
        return Verb("tidy", self._chance.choice(specs))

    def _alter(self, _model: Model) -> Verb:
        change = SetOption("snapshot.num-retained.max", str(100 + self._number))
        return Verb("alter", AlterTable([change]))

    def _rescale(self, _model: Model) -> Verb | None:
        return Verb("rescale", Rescale()) if self._kind.is_fixed else None
