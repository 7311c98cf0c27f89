"""Storage: the only interface to stored bytes.

A table is a set of immutable files, so a store has to offer very little: complete new files, *create if absent* for the
few names that decide races (snapshots, schemas, tags), listing, and deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file or directory.

    `path` starts with exactly the text of the call, so it can be compared and passed back unchanged.
    Object stores have no directories: there a directory is a shared prefix, with `size_bytes` and `modified_ms` 0.
    """

    path: str
    size_bytes: int
    modified_ms: int
    is_dir: bool


class Opener(Protocol):
    """What opens files for reading."""

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        """As `Storage.open`."""
        ...


def list_present(storage: Storage, prefix: str) -> list[FileInfo]:
    """What is directly in a directory that is no table's: a link there whose target is missing is left out."""
    found: list[FileInfo] = getattr(storage, "list_present", storage.list)(prefix)
    return found


class Storage(Protocol):
    """Files by full path; safe to use from many threads.

    - Paths are full texts: `/lake/db.db/t/…`, `file:///lake/…`, `s3://bucket/…`. A trailing slash means nothing.
      They are taken literally: no percent decoding, no wildcards.
    - Parent directories are made when needed.
    - What the backend raises becomes `NotFoundError` or `StorageError`, with the cause attached.
      So does the stream that `open` returns, while it is read; only that of a local file raises `OSError`, with the
      number of the operating system's error. Decoders raise it without one, for damaged bytes (`errors.unreadable`).
    - What a symbolic link of a local disk leads to is not absent while its target is missing: every call that follows
      such a link raises StorageError.
    - Reading after writing is consistent: nothing is cached between calls.

    Legal: `if not storage.create(path, data): look_at(storage.read(path))`.
    Illegal: `if not storage.exists(path): storage.overwrite(path, data)` - another process may come between the two.
    """

    @property
    def is_object_store(self) -> bool:
        """Whether directories are prefixes, which cannot be renamed, and objects are visible only when complete."""
        ...

    def read(self, path: str) -> bytes:
        """The complete file. Raises: NotFoundError."""
        ...

    def open(self, path: str, *, size_bytes: int | None = None) -> BinaryIO:
        """A seekable reader for random access, to be closed by the caller.

        Object stores fetch a file whose size is known to be small in one request.
        Raises: NotFoundError.
        """
        ...

    def writer(self, path: str) -> BinaryIO:
        """A context manager that writes a new file under a name that nothing else uses.

        The file is complete and durable when the `with` block ends; a block that fails leaves no file.
        A process that dies inside the block may leave an unreferenced file for orphan clean-up.
        Raises: StorageError if the name exists (where the store says so without another request).
        """
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Create the file if it is absent: True if this call did, False if the name was taken.

        Atomic: of several callers at most one gets True, and readers see all of `data` or no file, also if the
        process or the machine dies in between. Only callers with exactly the same bytes may all get True: an object
        store's client repeats lost requests, and cannot distinguish its own first try from an equal file.
        Raises: OutcomeUnknownError if the answer was lost, UnsupportedError if the store cannot do this.
        """
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Write the file whether or not it exists; readers see the old bytes or the new ones, never a mix.

        The last writer wins, so this is for hints only.
        """
        ...

    def exists(self, path: str) -> bool:
        """True for a file, and for an existing directory (object stores: one with any object in it)."""
        ...

    def stat(self, path: str) -> FileInfo:
        """Size and time of one file or directory. Raises: NotFoundError."""
        ...

    def list(self, prefix: str) -> list[FileInfo]:
        """The files and directories directly in a directory, sorted by path; [] if it is absent."""
        ...

    def walk(self, prefix: str) -> Iterator[FileInfo]:
        """All files below a directory, at any depth, in any order; none if it is absent."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files; a missing one is not an error, so it may be repeated. Never deletes a directory."""
        ...

    def delete_dir(self, path: str) -> None:
        """Remove an empty directory; does nothing if it is absent or not empty, or if the store has none."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory, parents included; it may exist already. Does nothing where directories are prefixes."""
        ...

    def rename_dir(self, source: str, target: str) -> None:
        """Give a directory, or a file, another name in one step, without replacing anything.

        Raises: NotFoundError; StorageError if the new name is taken; UnsupportedError where directories are prefixes,
        and for a name in another store.
        """
        ...

    def delete_tree(self, path: str) -> None:
        """Delete a directory and everything below it; it may be absent."""
        ...
