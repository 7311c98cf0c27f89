"""Instances that are made from columns are those that their class makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields

import pytest

from paimon_engine.frozen import Same, instances
from paimon_engine.meta.manifest import DataFile, ManifestEntry
from paimon_engine.meta.stats import SimpleStats

COUNT = 2_345


@pytest.mark.parametrize("kind", [DataFile, ManifestEntry, SimpleStats])
def test_instances_equal_those_of_the_class(kind: type) -> None:
    columns = [[f"{field.name} {number}" for number in range(COUNT)] for field in fields(kind)]

    found = instances(kind, COUNT, columns)

    assert found == [kind(*values) for values in zip(*columns, strict=True)]
    assert {type(one) for one in found} == {kind}
    with pytest.raises(FrozenInstanceError):
        setattr(found[0], fields(kind)[0].name, 1)


def test_a_column_may_have_one_value_for_all() -> None:
    assert instances(SimpleStats, 3, [Same(b"a"), [b"1", b"2", b"3"], Same(())]) == [
        SimpleStats(b"a", high, ()) for high in (b"1", b"2", b"3")
    ]
    assert instances(SimpleStats, 0, [Same(b"a"), [], Same(())]) == []


@dataclass(frozen=True, slots=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("negative")


@dataclass(frozen=True)
class WithoutSlots:
    number: int


@pytest.mark.parametrize("kind", [Checked, WithoutSlots])
def test_classes_whose_checks_would_not_run_are_refused(kind: type) -> None:
    with pytest.raises(TypeError, match=kind.__name__):
        instances(kind, 1, [[-1]])


@pytest.mark.parametrize("columns", [[[1, 2], [1], Same(1)], [[1, 2], [1, 2]], [[1, 2, 3], [1, 2, 3], Same(1)]])
def test_columns_that_do_not_fit_are_refused(columns: list[object]) -> None:
    with pytest.raises(ValueError, match=r"columns|zip"):
        instances(SimpleStats, 2, columns)  # type: ignore[arg-type]
