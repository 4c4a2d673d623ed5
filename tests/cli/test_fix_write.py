"""`podfit fix --write` replaces a file whole or not at all, and only files of the folder that it was given."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podfit.cli import main
from podfit.cli.support import replacement
from podfit.cli.support.edge import UnusableError

BAD = (Path(__file__).parents[1] / "rules" / "shm-missing" / "bad.yaml").read_text()
Fix = Callable[..., tuple[int, str]]


@pytest.fixture(name="fix")
def _fix(capsys: pytest.CaptureFixture[str]) -> Fix:
    """`podfit fix --write …`: (exit code, standard error)."""

    def fix(*names: Path) -> tuple[int, str]:
        code = main(["fix", "--no-config", "--write", *map(str, names)])
        return code, capsys.readouterr().err

    return fix


@pytest.fixture(name="deploy")
def _deploy(tmp_path: Path) -> Path:
    """A folder with one manifest that has a repair."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "pod.yaml").write_text(BAD)
    return tmp_path / "deploy"


def is_repaired(path: Path) -> bool:
    return path.read_text() != BAD and "medium: Memory" in path.read_text()


@pytest.mark.parametrize("place", ["elsewhere/secret.yaml", "deploy-2/pod.yaml"])
@pytest.mark.parametrize("pattern", ["", "*.yaml", "**/*.yaml"])
def test_a_link_out_of_the_folder_is_skipped_with_a_note(fix: Fix, deploy: Path, place: str, pattern: str) -> None:
    outside = deploy.parent / place
    outside.parent.mkdir()
    outside.write_text(BAD)
    (deploy / "link.yaml").symlink_to(outside)

    code, err = fix(deploy / pattern if pattern else deploy)

    assert code == 0
    assert outside.read_text() == BAD
    assert is_repaired(deploy / "pod.yaml")
    assert f"note: {deploy / 'link.yaml'}: skipped: a link to {outside}" in err


@pytest.mark.parametrize("target", ["gone.yaml", "folder", "loop.yaml", "/dev/null"])
@pytest.mark.parametrize("pattern", ["", "*.yaml", "**/*.yaml"])
def test_a_link_that_leads_to_no_file_is_skipped_with_a_note(fix: Fix, deploy: Path, target: str, pattern: str) -> None:
    (deploy / "folder").mkdir()
    (deploy / "loop.yaml").symlink_to("loop.yaml")
    (deploy / "link.yaml").symlink_to(target)

    code, err = fix(deploy / pattern if pattern else deploy)

    assert code == 0
    assert is_repaired(deploy / "pod.yaml")
    assert err.count(f"note: {deploy / 'link.yaml'}: skipped: a link that leads to no file\n") == 1


def test_a_link_within_the_given_folders_stays_a_link(fix: Fix, deploy: Path, tmp_path: Path) -> None:
    (tmp_path / "overlays").mkdir()
    (tmp_path / "overlays" / "link.yaml").symlink_to("../deploy/pod.yaml")
    (deploy / "another.yaml").symlink_to("pod.yaml")

    code, err = fix(deploy, tmp_path / "overlays")

    assert (code, "error" in err, "skipped" in err) == (0, False, False)
    assert is_repaired(deploy / "pod.yaml")
    assert (deploy / "another.yaml").is_symlink()
    assert (tmp_path / "overlays" / "link.yaml").is_symlink()


def test_a_link_that_is_named_is_followed(fix: Fix, deploy: Path, tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to(deploy / "pod.yaml")

    assert fix(tmp_path / "link.yaml")[0] == 0
    assert (tmp_path / "link.yaml").is_symlink()
    assert is_repaired(deploy / "pod.yaml")


@pytest.mark.parametrize("step", ["os.fsync", "os.utime", "pathlib.Path.replace"])
def test_a_file_that_cannot_be_written_is_as_before(
    fix: Fix, deploy: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(step, full)
    code, err = fix(deploy)

    assert code == 3
    assert (deploy / "pod.yaml").read_text() == BAD
    assert f"error: {deploy / 'pod.yaml'}: can't be written: no space left on device\n" in err
    assert "would repair" in err
    assert [one.name for one in deploy.iterdir()] == ["pod.yaml"]


def test_other_files_are_written_after_one_that_is_not(fix: Fix, deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (deploy / "next.yaml").write_text(BAD.replace("name: ", "name: next-", 1))
    allowed = os.access
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "next.yaml" and allowed(path, mode))

    code, err = fix(deploy)

    assert code == 3
    assert err.count("error: ") == 1
    assert "next.yaml: can't be written: the file is read-only" in err
    assert is_repaired(deploy / "pod.yaml")


def test_mode_and_attributes_stay(fix: Fix, deploy: Path) -> None:
    path = deploy / "pod.yaml"
    path.chmod(0o2640)
    before = path.stat()

    assert fix(deploy)[0] == 0
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o2640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert after.st_mtime_ns >= before.st_mtime_ns


def test_a_file_of_another_owner_is_left_if_it_cannot_be_given_back(
    fix: Fix, deploy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.chown", denied)
    new = os.stat_result((0o100644, 0, 0, 1, 4242, 4242, 0, 0, 0, 0))
    stats = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **how: new if ".podfit-" in str(path) else stats(path, **how))

    code, err = fix(deploy)

    assert code == 3
    assert "can't be written: operation not permitted" in err
    assert (deploy / "pod.yaml").read_text() == BAD


def test_a_file_that_changes_meanwhile_is_left(fix: Fix, deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = deploy / "pod.yaml"
    monkeypatch.setattr("podfit.cli.fix.rewrite", lambda *_: path.write_text("# edited\n") and "repaired")

    code, err = fix(deploy)

    assert code == 3
    assert "the file has changed since it was read" in err
    assert path.read_text() == "# edited\n"


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encoding_stays(fix: Fix, deploy: Path, codec: str) -> None:
    path = deploy / "pod.yaml"
    path.write_bytes(BAD.encode(codec))

    assert fix(deploy)[0] == 0
    assert path.read_bytes() != BAD.encode(codec)
    assert path.read_bytes().startswith(BAD.encode(codec)[:4])


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")

    for name in ("pipe", "loop"):
        with pytest.raises(UnusableError) as raised:
            replacement.replace(tmp_path / name, b"x")
        assert raised.value.code == 3
        assert len(raised.value.lines) == 1
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_new_file_is_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "any").write_text("")
    replacement.replace(tmp_path / "new", b"x")

    assert (tmp_path / "new").read_bytes() == b"x"
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "any").stat().st_mode
