"""Options of chain tables, whose partitions are complete in one branch, or made of changes in another one.

Source: `CoreOptions`, `ChainTableUtils` of the Java library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_engine.options.texts import OptionTexts

CHAIN_TABLE: Final = "chain-table.enabled"
CHAIN_KEYS: Final = "chain-table.chain-partition-keys"
COMPLETE_BRANCH: Final = "scan.fallback-snapshot-branch"
DELTA_BRANCH: Final = "scan.fallback-delta-branch"


@dataclass(frozen=True)
class ChainOptions(OptionTexts):
    """A table's options of chains."""

    @property
    def is_chain_table(self) -> bool:
        """Whether reads look at two other branches, and delete records are needed as long as their files."""
        return self._bool(CHAIN_TABLE, default=False)

    @property
    def chain_partition_keys(self) -> tuple[str, ...]:
        """The last partition keys, which give the partitions of a chain their order; empty: all of them."""
        return self._list(CHAIN_KEYS)

    @property
    def chain_branches(self) -> tuple[str, str] | None:
        """Names of the branches of complete partitions and of changes; None unless both are given."""
        names = self.raw.get(COMPLETE_BRANCH, "").strip(), self.raw.get(DELTA_BRANCH, "").strip()
        return names if self.is_chain_table and all(names) else None
