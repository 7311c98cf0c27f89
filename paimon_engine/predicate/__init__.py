"""Row filters: a small tree, from a SQL condition or from Python, used on rows and on statistics.

1. `parse_where` reads `day = DATE '2013-01-01' AND delay > 15`; `col("delay") > 15` says the same in Python (`tree`).
2. `bind` gives literals the types of their columns, without rounding (`literals`).
3. `matches` decides rows, as does the Arrow filter that `to_arrow_expression` gives (`rows`).
4. `may_match` decides from minimum, maximum and null count whether any row of a file can match, `all_match` whether
   all do (`ranges`).
"""

from paimon_engine.predicate.expression import Column, as_predicate, col
from paimon_engine.predicate.literals import bind, find_field, literal
from paimon_engine.predicate.ranges import ColumnRange, all_match, may_match
from paimon_engine.predicate.rows import matches, matching_rows, to_arrow_expression
from paimon_engine.predicate.tree import (
    And,
    Compare,
    Condition,
    In,
    IsNull,
    Match,
    Not,
    Operator,
    Or,
    Predicate,
    TextTest,
    columns_of,
    conjunction,
    conjuncts_of,
    disjunction,
    renamed,
    root_columns,
    with_values,
)


def parse_where(text: str) -> Predicate:
    """Predicate of a SQL condition; see `predicate.parse`, which is not loaded before, since it takes a while.

    Raises: InvalidArgumentError naming the part that is not understood.
    """
    from paimon_engine.predicate import parse

    return parse.parse_where(text)


__all__ = [
    "And",
    "Column",
    "ColumnRange",
    "Compare",
    "Condition",
    "In",
    "IsNull",
    "Match",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "TextTest",
    "all_match",
    "as_predicate",
    "bind",
    "col",
    "columns_of",
    "conjunction",
    "conjuncts_of",
    "disjunction",
    "find_field",
    "literal",
    "matches",
    "matching_rows",
    "may_match",
    "parse_where",
    "renamed",
    "root_columns",
    "to_arrow_expression",
    "with_values",
]
