"""Where an output may go: through devices and links, claimed by one writer, refused before the work."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.errors import OutputError
from simtool.files.writing import Claim, NewFolder, check_place, whole_file, write_text


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_device_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(os.devnull)
    write_text(tmp_path / "out", "gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    assert (tmp_path / "out").is_symlink()


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True)
    write_text(tmp_path / "pipe", "through")
    assert reader.communicate(timeout=30)[0] == "through"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_the_mode_of_an_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(0o600)
    write_text(tmp_path / "out", "new")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600


@pytest.mark.parametrize("place", ["file/under", "folder"])
def test_no_place_is_told_at_once(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError), whole_file(tmp_path / place):
        raise AssertionError("the work began")


def test_a_check_leaves_no_folder(tmp_path: Path) -> None:
    check_place(tmp_path / "a" / "b" / "c.json")
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "out", "old")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "out") as file:
        file.write(bytes(1 // len(list(tmp_path.glob("nothing")))))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "old"


_CLAIMING = """
import sys
from pathlib import Path
from simtool.files.writing import Claim
claim = Claim(Path(sys.argv[1]))
print("claimed", flush=True)
sys.stdin.read()
"""


def _claiming(path: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _CLAIMING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "claimed\n"
    return child


def test_the_second_of_two_writers_says_so_before_it_works(tmp_path: Path) -> None:
    child = _claiming(tmp_path / "out")
    with pytest.raises(OutputError, match=f"process {child.pid} is writing it now"):
        Claim(tmp_path / "out")
    with pytest.raises(OutputError, match=f"process {child.pid} is writing it now"):
        NewFolder(tmp_path / "out")
    write_text(tmp_path / "other", "is nobody's")
    child.kill()
    child.communicate(timeout=30)
    assert any(path.name.endswith(".simtmp") for path in tmp_path.iterdir())
    write_text(tmp_path / "out", "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]


def test_a_folder_is_exchanged_whole(tmp_path: Path) -> None:
    for content in ("old", "new"):
        folder = NewFolder(tmp_path / "run")
        (folder.path / content).write_text(content)
        folder.appear()
        folder.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["new"]


def test_a_quoted_tilde_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    assert run(["inspect", "~/run"]) == 2
    assert str(home / "run") in capsys.readouterr().err
