"""What tasks of a run returned, as far as it can be read here."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

_UNREADABLE: Final = (ImportError, TypeError, ValueError, AttributeError, LookupError)
"""What Airflow, and classes of tasks' own, raise for a value that cannot be made again here; a failing store is not."""

logger = logging.getLogger(__name__)


def returned_by(instance: Any, task_ids: Iterable[str]) -> Iterator[Any]:
    """The results of tasks of the run of a task instance; of mapped ones each.

    Results of operators of this provider are plain JSON values. Others may be of classes that this process does not
    know, or may not import: those are left out.
    """
    for task_id in task_ids:
        try:
            yield from instance.xcom_pull(task_ids=[task_id]) or ()
        except _UNREADABLE as error:
            logger.info("What %s returned cannot be read here, and is left out: %s", task_id, error)
