"""Actions of histories that write in one step and commit in another one, much later, twice, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from paimon_engine import Table, UnsupportedError
from tests.life_cycle.acting import CHANGES, PICK, Acting, action
from tests.life_cycle.world import Prepared, line_name
from tests.support.world import verbs


def has_prepared(machine: Acting) -> bool:
    """Whether any rows wait for their commit, or waited for it."""
    return bool(machine.world.prepared)


class InParts(Acting):
    """The rules of rows that are prepared. Clean-ups do not wait for them: then their commit is to be refused."""

    @action(writes=True, may=(UnsupportedError,), drawn=CHANGES)
    def prepare_write(self, table: Table, drawn: Sequence[Any]) -> Any:
        put = self.put(table, drawn)
        change = verbs.write(self.kind, put).change
        assert change is not None
        change.base = self.world.latest(line_name(table))
        self.world.is_littered = True
        messages = table.prepare_write(put.arrow(table.arrow_schema), put.kinds)
        self.world.prepared.append(Prepared(line_name(table), messages, change))
        return messages

    @action(writes=True, when=has_prepared, number=PICK)
    def commit_prepared(self, table: Table, number: int) -> Any:
        one = self._prepared(table, number)
        if one is None:
            return None
        user = f"user-{self.world.new_id()}"
        self.world.changes[user] = replace(one.change)
        return table.commit(one.messages, commit_user=user)

    @action(when=has_prepared, number=PICK, really=st.booleans())
    def abort_prepared(self, table: Table, number: int, really: bool) -> Any:
        one = self._prepared(table, number)
        return None if one is None or not really else table.abort(one.messages)

    def _prepared(self, table: Table, number: int) -> Prepared | None:
        found = [one for one in self.world.prepared if one.branch == line_name(table)]
        return found[number % len(found)] if found else None
