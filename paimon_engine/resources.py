"""What a job may use of the machine that it runs on, and the settings of Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from paimon_engine.errors import InvalidArgumentError
from paimon_engine.specs import Bounds, Count, Size, Spec, Texts, check_fields
from paimon_engine.specs.kinds import SIZE
from paimon_engine.units import MIB, size_text

MEMORY_MIN: Final = 512 * MIB
"""Spark starts no driver with less: `spark.testing.reservedMemory` (300 MiB) times 1.5, and the JVM's own share."""
_SETTING: Final = "spark."
_OURS: Final = {
    "spark.master": "where Spark runs is the launcher's to say, how many cores it takes is local_cores",
    "spark.remote": "where Spark runs is the launcher's to say",
    "spark.submit.deployMode": "where Spark runs is the launcher's to say",
    "spark.driver.memory": "give memory instead",
}
"""Settings that something else already says."""


@dataclass(frozen=True, slots=True)
class Resources(Spec):
    """Resources of a job.

    `memory` is the heap of an embedded Spark's JVM. What limits its tasks by estimate, such as a compaction, takes the
    same number as `task_memory_bytes`.
    """

    in_process_limit: Annotated[
        Annotated[int, Bounds(least=0), SIZE] | None, "work on fewer bytes than this is done without Spark"
    ] = None
    local_cores: Annotated[Count | None, "threads of a job, and cores of an embedded Spark; all by default"] = None
    memory: Annotated[Size | None, "memory of an embedded Spark's JVM, and of each task of a compaction"] = None
    spark_conf: Annotated[Texts | None, "settings of Spark"] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises: InvalidArgumentError for a wrong field, and for settings of Spark that are not to be given here."""
        check_fields(self)
        if self.memory is not None and self.memory < MEMORY_MIN:
            raise InvalidArgumentError(
                f"memory: {size_text(self.memory)} is too little for Spark's JVM; give at least {size_text(MEMORY_MIN)}"
            )
        for name in self.spark_conf or {}:
            if not name.startswith(_SETTING) or not name.isprintable():
                raise InvalidArgumentError(
                    f"spark_conf: {name!r} is not a setting of Spark, whose names begin with spark."
                )
            if name in _OURS:
                raise InvalidArgumentError(f"spark_conf: {name} is not allowed: {_OURS[name]}")
