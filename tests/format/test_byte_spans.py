"""Spans cut out side by side are those cut out one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from paimon_engine.format import byte_spans
from paimon_engine.format.byte_spans import all_alike, cut, cut_once, made_once


def random_spans(rng: random.Random) -> tuple[bytes, list[tuple[int, int]]]:
    """Bytes, many of them zero, and spans in them: of few or many lengths, empty ones and such as reach the end."""
    data = bytes(rng.choices([0, 0, 1, 2, 255], k=rng.choice([1, 40, 3_000])))
    lengths = [rng.randrange(len(data) + 1) for _ in range(rng.choice([1, 2, 5, 50]))]
    spans = []
    for _ in range(rng.choice([0, 1, 7, 300])):
        length = rng.choice(lengths)
        begin = rng.choice([rng.randrange(len(data) - length + 1), len(data) - length])
        spans.append((begin, begin + length))
    return data, spans


@pytest.mark.parametrize("seed", range(60))
def test_random_spans(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(byte_spans, "LENGTH_MAX", rng.choice([5, 4_096]))
    data, spans = random_spans(rng)
    begins, ends = (np.array([span[at] for span in spans], np.int64) for at in (0, 1))
    expected = [data[begin:end] for begin, end in spans]

    assert cut(data, begins, ends) == expected == cut_once(data, begins, ends)
    assert made_once(expected, bytes.hex) == [one.hex() for one in expected]
    if spans and all_alike(data, begins, ends):
        assert len(set(expected)) == 1


@pytest.mark.parametrize("length", [0, 1, 20])
def test_equal_spans_are_found_to_be_alike(length: int) -> None:
    data = bytes(length) + b"\1" * length
    begins = np.zeros(50, np.int64)

    assert all_alike(data, begins, begins + length)
    for index in (1, 49):
        others = begins.copy()
        others[index] = length
        assert all_alike(data, others, others + length) == (length == 0)
        assert not all_alike(data + b"\0", begins, begins + length + (others > 0)) or length == 0


def test_zeros_at_the_end_of_a_span_stay() -> None:
    begins, ends = np.array([0, 1, 3]), np.array([3, 3, 3])

    assert cut(b"\1\0\0", begins, ends) == [b"\1\0\0", b"\0\0", b""]


def test_equal_spans_one_behind_the_other_are_one_object() -> None:
    begins = np.array([0, 0, 2, 4, 4, 4])

    found = cut_once(b"abcdef", begins, begins + 2)

    assert found == [b"ab", b"ab", b"cd", b"ef", b"ef", b"ef"]
    assert found[0] is found[1]
    assert found[3] is found[4] is found[5]


def test_what_is_made_of_equal_spans_is_the_same_object() -> None:
    first, second, third = made_once([b"a", b"b", b"a"], lambda span: [span])

    assert first is third
    assert first != second
