"""Random changes of options, in every order that Java 0.9 allows.

Options of two kinds change: those that say how files are made and when, and those that say what the levels mean, which
are the producer of the changelog and deletion vectors.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.interop.histories.modes import ADDING, PRODUCER, VECTORS, is_whole, marks, options_after, producer_of
from tests.interop.histories.program import Step
from tests.interop.histories.tables import FORMATS, TAKES_BACK, Draw, formats_by_level, may_mark, producers
from tests.interop.histories.values import INTEGERS

Change = dict[str, Any]
TRIGGER, RATIO, LEVELS = "num-sorted-run.compaction-trigger", "compaction.size-ratio", "num-levels"
EXPIRY, TIME = "record-level.expire-time", "record-level.time-field"
LIKE = (
    "max",
    "min",
    "last_value",
    "last_non_null_value",
    "first_value",
    "first_non_null_value",
    "first_not_null_value",
)
"""Functions that take values of any kind that one of them takes."""


def to_set(name: str, value: str) -> Change:
    """A change of one option."""
    return {"change": "set_option", "name": name, "value": value}


def of_files(draw: Draw, chance: Random) -> list[Change]:
    """A change of how files are made, or of which runs a compaction takes."""
    changes = _of_files(draw, chance)
    draw.options = options_after(draw.options, changes)
    return changes


def _of_files(draw: Draw, chance: Random) -> list[Change]:
    ways = ["format", "by level", "compression", "size", "stats", "equal rows"]
    if LEVELS in draw.options:
        ways.append("levels")
    if LEVELS in draw.options or not (draw.picks_are_certain or producer_of(draw.options) == "full-compaction"):
        ways.append("runs")
    if TIME in draw.options:
        ways.append("expiry")
    functions = _functions(draw) if draw.picks_are_certain else {}
    ways += ["function", "function"] if functions else []
    match chance.choice(ways):
        case "format":
            return [to_set("file.format", chance.choice(FORMATS))]
        case "by level":
            if "file.format.per.level" in draw.options and chance.random() < 0.5:
                return [{"change": "remove_option", "name": "file.format.per.level"}]
            return [to_set("file.format.per.level", formats_by_level(chance))]
        case "compression":
            return [to_set("file.compression", chance.choice(["zstd", "snappy"]))]
        case "size":
            return [to_set("target-file-size", chance.choice(["2 kb", "1 mb"]))]
        case "stats":
            return [to_set("metadata.stats-mode", chance.choice(["none", "full", "truncate(16)"]))]
        case "equal rows":
            value = chance.choice(["true", "false"]) if draw.compares_rows else "false"
            return [to_set("changelog-producer.row-deduplicate", value)]
        case "levels":
            return [to_set(LEVELS, str(int(draw.options[LEVELS]) + chance.randint(1, 2)))]
        case "runs":
            return _of_runs(draw, chance)
        case "expiry":
            if EXPIRY in draw.options:
                return [{"change": "remove_option", "name": EXPIRY}]
            return [to_set(EXPIRY, "1 d")]
        case _:
            return [_to_function(draw, chance, functions)]


def _functions(draw: Draw) -> dict[str, str]:
    """Options of aggregate functions that may become others of the same kind."""
    return {
        name: f"fields.{name}.aggregate-function"
        for name, column in draw.columns.items()
        if column.function in (*LIKE, "sum") and column.kind in (*INTEGERS, "FLOAT", "DOUBLE")
    }


def _to_function(draw: Draw, chance: Random, functions: dict[str, str]) -> Change:
    """Another aggregate function; where the options do not say what was merged before, the result would differ."""
    name = chance.choice(list(functions))
    retracts = "-D" in draw.kinds and draw.options.get(f"fields.{name}.ignore-retract") != "true"
    allowed = [one for one in (*LIKE, "sum") if not retracts or one in TAKES_BACK]
    draw.columns[name].function = function = chance.choice(allowed)
    return to_set(functions[name], function)


def _of_runs(draw: Draw, chance: Random) -> list[Change]:
    """What a minor compaction takes; as before, the options alone say it or they do not."""
    trigger = str(chance.randint(2, 5))
    if not draw.picks_are_certain:
        # Java 0.9 makes no changelog of a full compaction if files are on higher levels than the options give now.
        draw.may_have_fewer_levels = LEVELS not in draw.options
        amplification = to_set("compaction.max-size-amplification-percent", chance.choice(["1", "50", "200"]))
        return [to_set(TRIGGER, trigger), *([amplification] if chance.random() < 0.5 else [])]
    if chance.random() < 0.5 or draw.is_filled_apart:
        return [to_set(TRIGGER, "60"), to_set(RATIO, "-100")]
    return [to_set(TRIGGER, trigger), to_set(RATIO, "100000000")]


def of_modes(draw: Draw, chance: Random) -> list[Step]:
    """A change of the producer, or of deletion vectors, or of both at once; sometimes of what cannot change.

    A full compaction before it makes the table ready where it would not be. Where it is left out, both engines decide
    whether the table is ready nevertheless.
    """
    if chance.random() < 0.1:
        return [{"op": "alter", "changes": [chance.choice(_refused(draw))]}]
    changes: list[Change] = []
    if chance.random() < 0.75:
        allowed = [one for one in producers(draw) if one != producer_of(draw.options)]
        if marks(draw.options):
            allowed = [one for one in allowed if one != "full-compaction"]
        # With `force-lookup`, Java 0.9 takes level 0 up without a look above, and readers take it for the whole.
        is_forced = "force-lookup" in draw.options and draw.engine in ADDING
        if draw.may_have_fewer_levels or is_forced:
            allowed = [one for one in allowed if one != "full-compaction"]
        changes += [_to_producer(chance.choice(allowed), chance)] if allowed else []
    after = options_after(draw.options, changes)
    if may_mark(draw, producer_of(after)) and (not changes or chance.random() < 0.25):
        changes.append(to_set(VECTORS, str(not marks(after)).lower()))
        after = options_after(after, changes)
    if not changes:
        return []
    steps: list[Step] = [{"op": "switch", "changes": changes}]
    if _must_be_compacted(draw, after) or chance.random() < 0.5:
        steps.insert(0, {"op": "compact", "full": True})
    draw.options = after
    return steps


def _to_producer(producer: str, chance: Random) -> Change:
    if producer == "none" and chance.random() < 0.5:
        return {"change": "remove_option", "name": PRODUCER}
    return to_set(PRODUCER, producer)


def _must_be_compacted(draw: Draw, after: dict[str, str]) -> bool:
    """Whether the changelog depends on levels, or the next step is drawn for a table that changed."""
    if draw.adds_first or (
        "full-compaction" in (producer_of(draw.options), producer_of(after)) and not draw.picks_are_certain
    ):
        return True
    # Java 0.9 looks above the output level only where the input has nothing above level 0: without a lookup compaction
    # before, the row of higher order may nevertheless be there, and the changelog does not have it.
    by_columns = "sequence.field" in draw.options or draw.engine in ADDING
    return is_whole(after) and not is_whole(draw.options) and by_columns and not draw.picks_are_certain


def _refused(draw: Draw) -> list[Change]:
    """Changes that no engine takes once there are rows."""
    other = "aggregation" if draw.engine != "aggregation" else "deduplicate"
    found = [
        to_set("merge-engine", other),
        to_set("rowkind.field", "k"),
        to_set("sequence.field", "k"),
        to_set("changelog-producer", "sometimes"),
        {"change": "remove_option", "name": "bucket"},
    ]
    if draw.engine in ("first-row", "append"):
        found.append(to_set(PRODUCER, "input"))
    if marks(draw.options):
        found.append(to_set(PRODUCER, "full-compaction"))
    if producer_of(draw.options) == "full-compaction":
        found.append(to_set(VECTORS, "true"))
    return found
