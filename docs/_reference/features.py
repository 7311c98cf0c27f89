"""Tables of what tests have found out: features (`tests/interop/feature_table.py`), and readers of them."""

from __future__ import annotations

import json
from pathlib import Path

from _reference.markdown import table
from paimon_engine.table.check.reader_facts import ENGINES, FACTS, RIGHT


def features() -> str:
    """What this engine does with each feature of Java Paimon 2.0."""
    lines = json.loads(Path(__file__).with_name("features.json").read_text(encoding="utf-8"))
    return table(
        ("A table of Java 2.0 with", "Read", "Written and compacted, then read by Java"),
        [(line["name"], line["read"], line["maintained"]) for line in lines],
    )


def readers() -> str:
    """Which engines do not read a table right that uses something, and what to change for them."""
    return table(
        ("A table with", *ENGINES.values(), "What to change"),
        [
            (fact.what, *(fact.outcomes.get(engine, RIGHT) for engine in ENGINES), fact.change)
            for fact in FACTS.values()
        ],
    )
