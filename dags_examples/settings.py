"""Where the example DAGs work: below `.demo` in the project's folder, unless PAIMON_DEMO_HOME names another place."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

HOME = Path(os.environ.get("PAIMON_DEMO_HOME") or Path(__file__).resolve().parents[1] / ".demo")
LAKE = {"table": "flights.departures", "warehouse": str(HOME / "lake")}
STAGING = HOME / "staging"

FIRST_DAY = datetime(2013, 1, 1, tzinfo=UTC)
DAYS = int(os.environ.get("PAIMON_DEMO_DAYS") or 7)

FIRST_RUN = FIRST_DAY + timedelta(days=1)
"""A day is loaded after it has ended: its run begins at the next midnight."""
LAST_RUN = FIRST_DAY + timedelta(days=DAYS)
