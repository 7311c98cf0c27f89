"""Progress of a long action, reported to the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` tasks of a stage such as `write` or `compact`."""

    stage: str
    done: int
    total: int


OnProgress = Callable[[Progress], None]


def counting(on_progress: OnProgress | None, stage: str, total: int) -> Callable[[int], None] | None:
    """A listener for `Executor.map` that reports the stage; announces it at once."""
    if on_progress is None:
        return None
    on_progress(Progress(stage, 0, total))
    return lambda done: on_progress(Progress(stage, done, total))


def in_round(on_progress: OnProgress | None, number: int) -> OnProgress | None:
    """A listener that adds the number of the round to each stage, for actions that work in several rounds."""
    if on_progress is None:
        return None
    return lambda progress: on_progress(replace(progress, stage=f"{progress.stage}, round {number}"))
