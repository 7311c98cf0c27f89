"""Keys are ordered as NumPy orders byte strings, wherever in the keys the differences are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_engine.merge import key_order
from paimon_engine.merge.key_order import order_keys
from paimon_engine.merge.keys import Keys

# Few values, so that keys share beginnings and bytes in between; those of digits differ in a few bits.
PIECES = st.sampled_from([b"", b"\x00", b"\x01", b"\xff", b"01", b"09", b"common", b"zzzzzzzzz", b"\x80" * 16])


@st.composite
def keys_of_runs(draw: st.DrawFn) -> Keys:
    common, pieces = (
        draw(st.binary(max_size=20)),
        draw(st.lists(PIECES | st.binary(max_size=9), min_size=1, max_size=5)),
    )
    key = st.lists(st.sampled_from(pieces), max_size=4).map(lambda parts: common + b"".join(parts))
    runs = draw(st.lists(st.lists(key, max_size=12).map(sorted), min_size=1, max_size=4).filter(any))
    return np.array([key for run in runs for key in run], dtype=f"S{draw(st.integers(1, 60))}")


def check(keys: Keys) -> None:
    order, first = order_keys(keys)

    assert order.tolist() == sorted(range(len(keys)), key=lambda row: keys[row])
    ordered = keys[order].tolist()
    assert first.tolist() == [row == 0 or ordered[row] != ordered[row - 1] for row in range(len(keys))]


@contextmanager
def limits(scanned_bytes: int, differing_share: float) -> Iterator[None]:
    """All keys are numbered, and little of them is looked at together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_order, "NUMBERED_KEYS_MIN", 1)
        patch.setattr(key_order, "COMPARED_POSITIONS", 3)
        patch.setattr(key_order, "SCANNED_BYTES_MAX", scanned_bytes)
        patch.setattr(key_order, "DIFFERING_SHARE_MAX", differing_share)
        yield


@settings(max_examples=400, deadline=None)
@given(keys_of_runs(), st.sampled_from([8, 16, 256]), st.sampled_from([0, 1 / 4, 1]))
def test_numbered_keys_are_ordered_as_byte_strings(keys: Keys, scanned_bytes: int, differing_share: float) -> None:
    with limits(scanned_bytes, differing_share):
        check(keys)


@pytest.mark.parametrize("count", [0, 1, key_order.NUMBERED_KEYS_MIN - 1, key_order.NUMBERED_KEYS_MIN, 5000])
@pytest.mark.parametrize("form", ["key-%06d", "%06d-and-much-that-is-the-same-%02d", "%d", "%3d" + "%06d" * 5])
def test_keys_of_one_form(form: str, count: int) -> None:
    numbers = np.random.default_rng(count).integers(0, 2500, count).tolist()
    indices = form.count("%")

    check(np.array([form % ((number // 100, number % 100) * 3)[:indices] for number in numbers], dtype="S40"))


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**62 - 1, 2**62, -(2**63)])))
def test_numbers_are_ordered_however_far_apart(numbers: list[int]) -> None:
    check(np.array(numbers, dtype=np.int64))


@pytest.mark.parametrize("bits", [1, 20, 51, 52, 60, 63])
@pytest.mark.parametrize("least", [0, -(2**62), 12345])
def test_many_numbers_in_no_order(bits: int, least: int) -> None:
    check(np.random.default_rng(bits).integers(0, 2**bits - 1, 5000, endpoint=True) + least)


@pytest.mark.parametrize("runs", [2, 4, 5, 40])
@pytest.mark.parametrize("bits", [30, 51, 52, 55, 59, 60, 63])
@pytest.mark.parametrize("close_share", [0, 0.01, 1])
def test_many_numbers_in_sorted_runs(runs: int, bits: int, close_share: float) -> None:
    random = np.random.default_rng(bits)
    spread = random.integers(0, 2**bits - 8, 5000)
    # Some differ in low bits only, and some occur in several runs.
    near = random.choice(spread[:50], 5000) + random.integers(0, 8, 5000)
    numbers = np.where(random.random(5000) < close_share, near, spread)

    check(np.concatenate([np.sort(part) for part in np.array_split(numbers, runs)]))


def test_objects_are_ordered_as_they_are() -> None:
    check(np.array([b"b", b"a", b"b", b"a\x01"] * 100, dtype=object))
