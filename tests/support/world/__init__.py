"""One table, and all that tests vary around it. Each file is one part of that:

| File | Content |
|---|---|
| `world.py` | where a table is: store, clock, ids and observers; it creates tables and carries out jobs |
| `kinds.py` | the kinds of tables |
| `model.py` | the rows that the table must have, in dictionaries |
| `verbs.py` | what is done to the table and to the model at once |
| `check.py` | table against model, and whether the table is sound |
| `reach.py` | which files are needed, worked out from the files alone |
| `made_up.py` | tables whose data files are made up, for tests that never read them |
| `scenarios.py`, `rehearsal.py` | every action on a table that suits it, and how it goes undisturbed |
"""

from tests.support.world.world import COLUMNS, HOUR_MS, MAIN, ROOT, START_MS, Place, Real, World, rows_of

__all__ = ["COLUMNS", "HOUR_MS", "MAIN", "ROOT", "START_MS", "Place", "Real", "World", "rows_of"]
