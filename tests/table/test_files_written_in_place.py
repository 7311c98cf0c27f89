"""Java writes tags and consumers in place: for a moment their files are empty or cut off, which is no damage."""

from __future__ import annotations

import pytest

from paimon_engine.errors import CorruptTableError
from paimon_engine.inspect.waits import TagWait
from paimon_engine.storage import MemoryStorage
from paimon_engine.table.state.snapshots import consumers, read_tag
from tests.support.world.made_up import History

MOMENTS = pytest.mark.parametrize("size", [0, 12, 200])


class WrittenInPlace(MemoryStorage):
    """The next `reads_left` reads of one file find its first bytes only."""

    def __init__(self, part: str, size: int) -> None:
        super().__init__()
        self.part, self.size, self.reads_left = part, size, 0

    def read(self, path: str) -> bytes:
        data = super().read(path)
        if self.part not in path or not self.reads_left:
            return data
        self.reads_left -= 1
        return data[: min(self.size, len(data) - 1)]


@MOMENTS
def test_a_consumer_that_is_just_written_keeps_its_snapshots(size: int) -> None:
    store = WrittenInPlace("/consumer-etl", size)
    history = History(storage=store).write().write().write()
    store.overwrite(history.handle.paths.consumer("etl"), b'{\n  "nextSnapshot" : 2\n}')

    store.reads_left = 2
    history.expire(retain_max=1)

    assert store.reads_left == 0
    assert history.ids() == [2, 3]


@MOMENTS
def test_a_tag_that_is_just_written_is_found_and_stops_no_clean_up(size: int) -> None:
    store = WrittenInPlace("/tag-t", size)
    history = History(storage=store).write().write().write()
    history.tag("t", 1)

    store.reads_left = 2
    assert TagWait("t").look(history.handle) == {"tag": "t", "snapshot_id": 1}
    store.reads_left = 2
    result = history.expire(retain_max=1)

    assert store.reads_left == 0
    assert result.stopped == ()
    assert history.ids() == [3]
    history.assert_exact()


def test_what_stays_cut_off_is_damaged() -> None:
    store = WrittenInPlace("/t", 100)
    history = History(storage=store).write()
    history.tag("t", 1)
    store.overwrite(history.handle.paths.consumer("etl"), b"")

    store.reads_left = 1000
    with pytest.raises(CorruptTableError, match=r"delete_tag\('t'\)"):
        read_tag(history.handle, "t")
    with pytest.raises(CorruptTableError, match="no valid consumer"):
        consumers(history.handle)
