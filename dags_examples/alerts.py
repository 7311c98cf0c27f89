"""What Airflow's triggerer calls when a deadline has passed.

The triggerer imports a callback by its path, so it is in a module that the triggerer can import: one that is defined in
a DAG file is not found.
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger(__name__)


async def tell_late(what: str, context: dict[str, Any] | None = None) -> None:
    """Says in the triggerer's log what is late, and in which run; send a message to people from here."""
    run = (context or {}).get("dag_run", {})
    logger.warning("%s is late: DAG %s, run %s", what, run.get("dag_id"), run.get("dag_run_id"))
