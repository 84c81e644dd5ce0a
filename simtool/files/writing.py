"""Outputs: written beside their place, synced, and renamed, so that what was there stays until the new is whole.

A temporary name cannot be guessed and is opened exclusively; its writer holds a lock on it, so that whoever comes next
knows a live writer's from a dead one's, refuses at the former and removes the latter. A device or a pipe is written
through; a link is followed to what it names, and that is what is replaced.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path

from simtool.errors import OutputError
from simtool.files.reading import kind_of

#: .NAME.PID.RANDOM.simtmp
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.[0-9a-f]{16}\.simtmp", re.DOTALL)
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_AT_FDCWD = -100


def expanded(path: Path) -> Path:
    """Return the path with a leading ~ or ~user as the home folder it stands for; a shell leaves a quoted one."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path  # nobody of that name: then it is a plain name


class Claim:
    """A place that this process is about to write, held from before the work until `release`.

    Raises OutputError when the place cannot be written, or another live process has claimed it. Folders above it are
    made. Where a device or a pipe stands nothing is held.
    """

    def __init__(self, path: Path) -> None:
        self.place = _real(path)
        self._held: _Temporary | None = None
        self._made: list[Path] = []
        mode = _mode(self.place)
        if mode is not None and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            _check_through(self.place, mode)
            return
        self._made = _make_parents(self.place)
        try:
            self._held = _Temporary(self.place, is_folder=False)
        except OSError as error:
            self.release()
            raise OutputError(f"{path}: cannot be written ({error.strerror}); choose another name") from error

    def release(self) -> None:
        """Let others write there; folders that were made for it and hold nothing go. Safe to call twice."""
        if self._held is not None:
            self._held.remove()
            self._held = None
        for folder in reversed(self._made):
            with suppress(OSError):  # it holds the output
                folder.rmdir()


def check_place(path: Path) -> None:
    """Raise OutputError when nothing can be written at `path` now; leaves nothing behind."""
    Claim(path).release()


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedWriter]:
    """Give a file to write to, which appears at `path` when the block ends well, and not at all when it does not.

    Raises OutputError where it cannot, OSError naming `path` when the disk fails; what was there stays until then.
    """
    place = _real(path)
    mode = _mode(place)
    if mode is not None and stat.S_ISDIR(mode):
        raise OutputError(f"{path}: is a folder; give the name of a file")
    if mode is not None and not stat.S_ISREG(mode):
        _check_through(place, mode)
        with _named(path), place.open("wb") as file:
            yield file
        return
    _make_parents(place)
    temporary = _Temporary(place, is_folder=False)
    try:
        with _named(path), os.fdopen(os.dup(temporary.descriptor), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _named(path):
            if mode is not None:
                os.chmod(temporary.path, stat.S_IMODE(mode))
            os.replace(temporary.path, place)
            sync_folder(place.parent)
    finally:
        temporary.remove()


def write_text(path: Path, text: str) -> None:
    """Write a text file whole, as UTF-8."""
    with whole_file(path) as file:
        file.write(text.encode())


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Write a file whole."""
    with whole_file(path) as file:
        file.write(data)


class NewFolder:
    """A folder that is filled beside its place and put there by `appear`, in exchange for one that is there already.

    path: where to fill it. Raises OutputError when the place cannot be written or is being written by another.
    """

    def __init__(self, place: Path) -> None:
        self._place = _real(place)
        _make_parents(self._place)
        self._temporary = _Temporary(self._place, is_folder=True)
        self.path = self._temporary.path

    def appear(self) -> None:
        """Put the folder in its place; one that was there goes once the new one stands."""
        with _named(self._place):
            if _mode(self._place) is None:
                os.rename(self.path, self._place)
            elif not _exchange(self.path, self._place):
                aside = self.path.with_name(_temporary_name(self._place))
                os.rename(self._place, aside)
                os.rename(self.path, self._place)
                shutil.rmtree(aside, ignore_errors=True)
            sync_folder(self._place.parent)
        self._temporary.remove()

    def discard(self) -> None:
        """Drop it; what was at its place stays. Safe to call after `appear`, which it does not undo."""
        self._temporary.remove()


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders in `folder` whose writers are gone."""
    for entry in _temporaries(folder):
        with suppress(OSError), _lock_of(entry) as mine:
            if mine:
                _remove(entry)


def is_temporary(name: str) -> bool:
    """Whether a file or folder of that name is some writer's, whole or dead: never part of what it stands beside."""
    return _TEMPORARY.fullmatch(name) is not None


def sync_folder(folder: Path) -> None:
    """Put a rename in `folder` on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems have nothing to sync
            raise
    finally:
        os.close(descriptor)


class _Temporary:
    """A temporary file or folder beside `place`, locked while it lives, made where no other live process has one."""

    def __init__(self, place: Path, *, is_folder: bool) -> None:
        self.path = place.with_name(_temporary_name(place))
        self._gone = False
        with _named(place), _alone_in(place.parent):
            remove_leftovers(place.parent)
            for entry in _temporaries(place.parent):
                found = _TEMPORARY.fullmatch(entry.name)
                assert found is not None, "only such names are listed"
                other = found["pid"]
                if found["name"] == _stem(place) and int(other) != os.getpid():
                    raise OutputError(f"{place}: process {other} is writing it now; wait, or choose another name")
            flags = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_WRONLY | os.O_CREAT | os.O_EXCL
            if is_folder:
                os.mkdir(self.path)
            self.descriptor = os.open(self.path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove it, unless it was renamed to its place; safe to call twice."""
        if self._gone:
            return
        self._gone = True
        with suppress(OSError):
            _remove(self.path)
        os.close(self.descriptor)


def _temporary_name(place: Path) -> str:
    return f".{_stem(place)}.{os.getpid()}.{secrets.token_hex(8)}.simtmp"


def _stem(place: Path) -> str:
    """As much of a long name as leaves room for the rest of a temporary one's."""
    return place.name.encode()[:180].decode(errors="ignore")


def _temporaries(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if _TEMPORARY.fullmatch(entry.name)]


@contextmanager
def _lock_of(entry: Path) -> Iterator[bool]:
    """Whether the entry's writer is gone: nobody else holds its lock, which is held here for as long."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(entry, flags)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Look and claim in one go: two processes that did so at once would not see each other.

    In a temporary folder there is nobody else, and its own lock would stand in the way.
    """
    if _TEMPORARY.fullmatch(folder.name):
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0)


def _real(path: Path) -> Path:
    """The place that a path leads to, through links, which may dangle."""
    try:
        return path.absolute() if not path.is_symlink() else path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise OutputError(f"{path}: cannot be written ({error}); choose another name") from error


def _mode(place: Path) -> int | None:
    try:
        return place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None  # whatever is amiss above it is told when the folders are made
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{place}: cannot be written ({reason}); choose another name") from error


def _check_through(place: Path, mode: int) -> None:
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        raise OutputError(f"{place}: is {kind_of(mode)}; give the name of a file")
    if not os.access(place, os.W_OK):
        raise OutputError(f"{place}: nothing can be written there; choose another name")


def _make_parents(place: Path) -> list[Path]:
    """Make the folders above a place and return those that were not there, the uppermost first."""
    made = [folder for folder in reversed(place.parents) if not folder.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = f"{error.filename or place.parent} ({error.strerror})"
        raise OutputError(f"{place}: nothing can be written under {where}; choose another name") from error
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{place}: nothing can be written under {place.parent}; choose another name")
    return made


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A failure of the disk names the file that was asked for, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(_final(path))) from error


def _final(path: Path) -> Path:
    """Where a file in a temporary folder will stand once the folder has taken its place."""
    found = [_TEMPORARY.fullmatch(part) for part in path.parts]
    return Path(*(match["name"] if match else part for part, match in zip(path.parts, found, strict=True)))
