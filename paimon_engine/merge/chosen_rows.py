"""Some rows of a batch, which are not copied before they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_engine.arrow_values import of_numbers
from paimon_engine.merge.window import Positions


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """The rows of a batch at ascending `positions`, int64 [n]; all of them if None."""

    batch: pa.RecordBatch
    positions: Positions | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.batch.num_rows if self.positions is None else len(self.positions)

    @property
    def nbytes(self) -> int:
        """Their share of the batch's bytes."""
        return int(self.batch.nbytes * self.num_rows // max(1, self.batch.num_rows))

    def gathered(self, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """These rows, with all columns or some."""
        batch = self.batch if names is None else self.batch.select(list(names))
        return batch if self.positions is None else taken(batch, self.positions)

    def at(self, positions: Positions) -> pa.RecordBatch:
        """Those of these rows, counted from 0."""
        return taken(self.batch, positions if self.positions is None else self.positions[positions])


def taken(rows: pa.RecordBatch, positions: Positions) -> pa.RecordBatch:
    """The rows at some positions, at least one; without a copy if they follow one another."""
    low, count = int(positions[0]), len(positions)
    if int(positions[-1]) - low == count - 1 and bool((np.diff(positions) == 1).all()):
        # As of rows that came sorted.
        return rows.slice(low, count)
    # Indices computed here need no bounds check.
    return pc.take(rows, of_numbers(positions, pa.int64()), boundscheck=False)
