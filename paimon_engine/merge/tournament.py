"""The tournament in which the Java library merges sorted runs: it decides which of equal records comes first.

Its tree keeps the loser of each match. Of two records of a key with equal sequences the one that waited at the node of
their match comes first, so the order depends on which of the two runs went on last, and so on the keys before.

Source: `LoserTree`, `SortMergeReaderWithLoserTree` of the Java library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any


class MatchState(Enum):
    """What a run's current record is in its match: of a new key, of the round's key, or taken already."""

    WON_NEW = auto()
    WON_SAME = auto()
    WON_TAKEN = auto()
    LOST_NEW = auto()
    LOST_SAME = auto()
    LOST_TAKEN = auto()


_LOST = frozenset({MatchState.LOST_NEW, MatchState.LOST_SAME, MatchState.LOST_TAKEN})


class Contender(ABC):
    """A run and its current record; `key` is None after the last one. `key` and `sequence` are values that compare."""

    def __init__(self) -> None:
        """At no record yet."""
        self.key: Any = None
        self.sequence: Any = None
        self.state = MatchState.WON_NEW
        self.same_key_at = 0
        """The first match, from the leaf up, that this record won against one of its key; 0 for none."""

    def advance(self) -> None:
        """Goes on to the next record."""
        self.same_key_at = 0
        self.state = MatchState.WON_NEW
        self.go_on()

    @abstractmethod
    def go_on(self) -> None:
        """Sets key and sequence to those of the next record."""

    def won_against_same(self, match: int) -> None:
        """Notes a match that was won against a record of the same key."""
        self.same_key_at = self.same_key_at or match


class Tournament:
    """Matches between runs; each inner node keeps the loser of its match, node 0 the winner of all."""

    def __init__(self, runs: Sequence[Contender], *, changed: Sequence[Any] | None = None) -> None:
        """All runs go on to their first record.

        With `changed` they are at a record already, and it says when each of them went on to it, as values that
        compare: so a tournament begins anywhere among the keys.
        """
        self._runs = runs
        self._nodes = [-1] * len(runs)
        if changed is not None:
            self._arrange(changed)
            return
        for number in reversed(range(len(runs))):
            runs[number].advance()
            self._climb(number)

    def _arrange(self, changed: Sequence[Any]) -> None:
        """Plays each match once: at its node waits the winner of the half that changed first."""
        count = len(self._runs)
        winners = [*range(count)] * 2
        times = [None] * count + list(changed)
        for node in reversed(range(1, count)):
            waiting, rising = sorted((2 * node, 2 * node + 1), key=times.__getitem__)
            times[node] = times[rising]
            first, last = winners[waiting], winners[rising]
            self._runs[first].state = MatchState.LOST_NEW
            _play_new(self._runs[first], self._runs[last], node)
            lost = self._runs[last].state in _LOST
            winners[node], self._nodes[node] = (first, last) if lost else (last, first)
        self._nodes[0] = winners[1] if count > 1 else 0

    def next_round(self) -> list[int]:
        """The runs that have the smallest key, in order of their records of it; none at the end.

        Each gives one record, at which it stays until the next round.
        """
        while (winner := self._winner).state is MatchState.WON_TAKEN:
            winner.advance()
            self._climb(self._nodes[0])
        members = []
        while (winner := self._winner).state is not MatchState.WON_TAKEN and winner.key is not None:
            winner.state = MatchState.WON_TAKEN
            members.append(self._nodes[0])
            self._climb(self._nodes[0])
        return members

    @property
    def _winner(self) -> Contender:
        return self._runs[self._nodes[0]]

    def _climb(self, number: int) -> None:
        """Plays the matches of a run from its leaf up, after its record changed."""
        node = (number + len(self._runs)) // 2
        while node > 0 and number >= 0:
            rising = self._runs[number]
            if self._nodes[node] < 0:
                rising.state = MatchState.LOST_NEW
            elif rising.state is MatchState.WON_TAKEN:
                if not rising.same_key_at:
                    break
                # Directly to the node where another record of the key waits.
                node = rising.same_key_at
                rising.state = MatchState.LOST_TAKEN
                self._runs[self._nodes[node]].state = MatchState.WON_SAME
            elif rising.state is MatchState.WON_NEW:
                _play_new(self._runs[self._nodes[node]], rising, node)
            else:
                _play_same(self._runs[self._nodes[node]], rising, node)
            if rising.state in _LOST:
                number, self._nodes[node] = self._nodes[node], number
            node //= 2
        self._nodes[0] = number


def _play_new(waiting: Contender, rising: Contender, node: int) -> None:
    """A match of a record whose key has not been compared yet."""
    if waiting.state is MatchState.LOST_TAKEN:
        waiting.state, rising.state = MatchState.WON_TAKEN, MatchState.LOST_NEW
        waiting.same_key_at = 0
        return
    if waiting.key is None or (rising.key is not None and rising.key < waiting.key):
        return
    if rising.key is None or waiting.key < rising.key:
        waiting.state, rising.state = MatchState.WON_NEW, MatchState.LOST_NEW
    elif rising.sequence < waiting.sequence:
        waiting.state = MatchState.LOST_SAME
        rising.won_against_same(node)
    else:
        waiting.state, rising.state = MatchState.WON_NEW, MatchState.LOST_SAME
        waiting.won_against_same(node)


def _play_same(waiting: Contender, rising: Contender, node: int) -> None:
    """A match of a record of the round's key."""
    if waiting.state is not MatchState.LOST_SAME:
        return
    if waiting.sequence < rising.sequence:
        waiting.state, rising.state = MatchState.WON_SAME, MatchState.LOST_SAME
        waiting.won_against_same(node)
    else:
        rising.won_against_same(node)
