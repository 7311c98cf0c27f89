"""How a history is made: Hypothesis chooses the actions, the actors, and where they are stopped.

A rule is one function of a table; it runs as an actor (`stage`). `branch` chooses main or a branch, `who` a handle that
was opened again or earlier, `stop` the call of the store before which it is stopped (None: it runs to its end).
`writes` says that it commits; `exclusive` that nobody may commit meanwhile, as its docstring asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from paimon_engine import Table
from tests.life_cycle.reading import assert_all_ways_agree
from tests.life_cycle.world import Call, World, line_name
from tests.support.world import HOUR_MS, MAIN
from tests.support.world.kinds import DATES, KINDS, Kind
from tests.support.world.verbs import Put

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["+I", "+I", "+I", "-D"]),
        st.sampled_from(DATES),
        st.integers(0, 7),
        st.one_of(st.none(), st.integers(0, 99)),
        st.one_of(st.none(), st.sampled_from("abc")),
    ),
    min_size=1,
    max_size=5,
)
STOPS = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 80))
PICK = st.integers(0, 50)
HOW = st.fixed_dictionaries(
    {}, optional={"quarantine": st.booleans(), "files_per_second": st.just(1e6), "parallelism": st.just(1)}
)
"""How files are deleted."""


def action(
    *,
    writes: bool = False,
    exclusive: bool = False,
    may: tuple[type[Exception], ...] = (),
    when: Callable[[Acting], bool] = lambda _: True,
    **strategies: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Makes a rule of a function of a table, which gives what the action said, or None if there was nothing to do."""

    def make(body: Callable[..., Any]) -> Any:
        def run(self: Acting, branch: int, who: int, stop: int | None, **drawn: Any) -> None:
            self.act(body, self.branch_of(branch), who, stop, drawn, writes=writes, exclusive=exclusive, may=may)

        run.__name__ = body.__name__
        made = rule(branch=st.integers(0, 3), who=st.integers(0, 2), stop=STOPS, **strategies)(run)
        return precondition(when)(made)

    return make


def has_branch(machine: Acting) -> bool:
    """Whether there is one."""
    return len(machine.world.branches()) > 1


def has_snapshot(machine: Acting) -> bool:
    """Whether anything was committed."""
    return bool(machine.world.seen)


def has_tag(machine: Acting) -> bool:
    """Whether there is one on any branch."""
    return any(version.kind == "tag" for version in machine.world.reach.versions())


class Acting(RuleBasedStateMachine):
    """One history of one table; subclasses choose its kind and may look at the end of it."""

    kind: Kind = KINDS[0]
    has_directories = True

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.kind, has_directories=self.has_directories)

    def act(
        self,
        body: Callable[..., Any],
        branch: str,
        who: int,
        stop: int | None,
        drawn: dict[str, Any],
        *,
        writes: bool,
        exclusive: bool,
        may: tuple[type[Exception], ...],
    ) -> None:
        self.world.now_ms += 1_000
        table = self.world.opened(branch, who)
        call = Call(body.__name__, branch, lambda: body(self, table, **drawn), writes, exclusive, may)
        if self.world.may_begin(call):
            self.world.begin(call, stop)

    def put(self, table: Table, drawn: Sequence[Any], **more: Any) -> Put:
        """The drawn changes as rows of the table as it is opened."""
        takes_deletes, columns = self.world.kind.takes_deletes, [field.name for field in table.arrow_schema]
        changes = []
        for row_kind, dt, k, v, w in drawn:
            row = {"dt": dt, "k": k, "v": v, "w": w, **{name: v for name in columns if name.startswith("x")}}
            changes.append((row_kind if takes_deletes else "+I", row))
        return Put(changes, tells_kinds=takes_deletes, **more)

    def branch_of(self, number: int) -> str:
        branches = self.world.branches()
        return MAIN if number < 2 else branches[min(number - 1, len(branches) - 1)]

    def teardown(self) -> None:
        try:
            # After a failed step there is nothing more to be learnt.
            if not self.world.has_failed:
                self.world.finish()
                assert_all_ways_agree(self.world)
                self.at_end()
        finally:
            self.world.dismiss()

    def at_end(self) -> None:
        """What else to look at."""

    # ── the stage ───────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.world.paused)
    @rule(number=PICK, stop=STOPS)
    def resume(self, number: int, stop: int | None) -> None:
        self.world.resume(number, stop)

    @precondition(lambda self: self.world.paused)
    @rule(number=PICK)
    def kill(self, number: int) -> None:
        self.world.kill(number)

    @rule(hours=st.sampled_from([1, 1, 3, 30]))
    def time_passes(self, hours: int) -> None:
        self.world.now_ms += hours * HOUR_MS

    # ── what there is ───────────────────────────────────────────────────────────────────────────────

    def _snapshot(self, table: Table, number: int) -> int | None:
        found = [int(version.name) for version in self.world.versions(line_name(table), "snapshot")]
        return found[-1 - number % len(found)] if found else None

    def _tag(self, table: Table, number: int) -> str | None:
        found = [version.name for version in self.world.versions(line_name(table), "tag")]
        return found[number % len(found)] if found else None

    def _branch(self, number: int) -> str | None:
        found = self.world.branches()[1:]
        return found[number % len(found)] if found else None
