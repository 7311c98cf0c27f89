"""Actions of histories that maintain a table: clustering, merging branches, purging, restoring, repairing."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from paimon_engine import Table
from paimon_engine.actions.cluster import Cluster
from paimon_engine.actions.purge_files import PurgeFiles
from paimon_engine.actions.remove_unexisting_files import RemoveUnexistingFiles
from paimon_engine.actions.remove_unexisting_manifests import RemoveUnexistingManifests
from tests.life_cycle.acting import HOW, PICK, Acting, action, has_branch, has_snapshot
from tests.life_cycle.damage import lose_data, lose_manifest, lose_snapshot
from tests.life_cycle.merging import merge
from tests.life_cycle.world import line_name
from tests.support.world import MAIN, verbs
from tests.support.world.kinds import DATES
from tests.support.world.model import Rows

ORDERS = ("order", "zorder", "hilbert")


def has_quarantine(machine: Acting) -> bool:
    """Whether anything was quarantined."""
    return bool(_quarantines(machine))


def _quarantines(machine: Acting) -> list[str]:
    paths = [path.split("/") for path in machine.world.reach.stored()]
    return sorted({parts[1] for parts in paths if parts[0] == "quarantine" and parts[2:] == ["moved.json"]})


class Upkeep(Acting):
    """The rules of maintenance."""

    @action(
        writes=True,
        when=lambda self: has_snapshot(self) and not self.kind.primary_keys and not self.kind.is_fixed,
        order=st.sampled_from(ORDERS),
    )
    def cluster(self, table: Table, order: str) -> Any:
        spec = Cluster(["k"] if order == "order" else ["k", "v"], order)
        return self.world.do(verbs.same_rows("cluster", spec), table)

    @action(when=lambda self: has_snapshot(self) and bool(self.kind.partition_keys), date=st.sampled_from(DATES))
    def mark_partition_done(self, table: Table, date: str) -> Any:
        result = table.mark_partition_done({"dt": date})
        assert f"dt={date}/_SUCCESS" in self.world.reach.stored()
        return result

    # ── branches ────────────────────────────────────────────────────────────────────────────────

    @action(writes=True, when=has_branch, number=PICK, dry_run=st.sampled_from([False, False, True]))
    def merge_branch(self, table: Table, number: int, dry_run: bool) -> Any:
        name = self._branch(number)
        if name is None or name == line_name(table):
            return None
        return merge(self.world, table, name, dry_run=dry_run)

    # ── deleted permanently, and restored ─ ─────────────────────────────────────────────────────────

    @action(
        exclusive=True,
        when=has_snapshot,
        keep_tags=st.booleans(),
        keep_branches=st.booleans(),
        really=st.sampled_from([False, False, False, True]),
        how=HOW,
    )
    def purge_files(self, table: Table, keep_tags: bool, keep_branches: bool, really: bool, how: Any) -> Any:
        main = self.world.table(MAIN)
        if really and not keep_branches:
            for branch in self.world.branches()[1:]:
                self.world.forget(branch)
        spec = PurgeFiles(
            keep_tags=keep_tags,
            keep_branches=keep_branches,
            older_than=self.world.oldest_work_ms,
            dry_run=not really,
            **how,
        )
        return self.world.do(verbs.other_rows("purge", spec, lambda _: Rows(self.kind), shows_all=True), main)

    @action(exclusive=True, when=has_quarantine, number=PICK, way=st.sampled_from(["back", "back", "tags", "dry"]))
    def restore(self, table: Table, number: int, way: str) -> Any:
        found = _quarantines(self)
        if not found:
            return None
        self.world.is_littered = True
        return table.restore(found[number % len(found)], as_tags=way == "tags", dry_run=way == "dry")

    @action(when=has_quarantine, number=PICK)
    def empty_quarantine(self, table: Table, number: int) -> Any:
        found = _quarantines(self)
        return table.empty_quarantine(found[number % len(found)]) if found else None

    # ── repairs ─────────────────────────────────────────────────────────────────────────────────

    @action(writes=True, when=has_snapshot, dry_run=st.booleans())
    def remove_unexisting_files(self, table: Table, dry_run: bool) -> Any:
        result = self.world.do(verbs.same_rows("repair", RemoveUnexistingFiles(dry_run=dry_run)), table)
        assert result.status == "noop"
        return result

    @action(writes=True, when=has_snapshot, dry_run=st.booleans())
    def remove_unexisting_manifests(self, table: Table, dry_run: bool) -> Any:
        result = self.world.do(verbs.same_rows("repair", RemoveUnexistingManifests(dry_run=dry_run)), table)
        assert result.status == "noop"
        return result

    @precondition(lambda self: has_snapshot(self) and not self.world.paused)
    @rule(dry_run=st.booleans(), how=HOW)
    def repair_earliest_snapshot(self, dry_run: bool, how: Any) -> None:
        world = self.world
        if not world.versions(MAIN, "snapshot"):
            return
        late = [int(version.name) for version in world.late(MAIN)]
        result = world.table(MAIN).repair_earliest_snapshot(dry_run=dry_run, **how)
        assert set(result.removed_snapshots) <= set(late)
        world.observe()

    @precondition(lambda self: has_snapshot(self) and not self.world.paused)
    @rule(number=PICK, what=st.sampled_from([lose_data, lose_manifest, lose_snapshot]))
    def repair_damage(self, number: int, what: Any) -> None:
        if what is not lose_snapshot and self.kind.splits_rows:
            return
        if self.world.latest(MAIN) is not None and not self.world.late(MAIN):
            what(self.world.copy(), number)
