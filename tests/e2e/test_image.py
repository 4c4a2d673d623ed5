"""The image, without an image builder: the Dockerfile's steps in a folder, and its command as its user on a read-only
tree."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from podfit import __version__
from podfit.server import certs
from tests.e2e.controlplane import HOST, fetch
from tests.e2e.process import kill, start, tail, until
from tests.e2e.release import ROOT

PLACES = ("/opt/podfit", "/src", "/wheels", "/etc/podfit")
"""What the Dockerfile writes, and reads, outside the base image."""


@dataclass(frozen=True)
class Stage:
    """One `FROM` of a Dockerfile and what follows it."""

    steps: tuple[tuple[str, str], ...]

    def all(self, word: str) -> list[str]:
        """The arguments of each such step."""
        return [rest for step, rest in self.steps if step == word]


@dataclass(frozen=True)
class Image:
    """What was built."""

    root: Path
    final: Stage

    def inside(self, text: str) -> str:
        """Paths of the image as they are here."""
        return re.sub(rf"(?<![\w.])(?:{'|'.join(PLACES)})(?=/|\s|$|\")", lambda found: f"{self.root}{found[0]}", text)


def stages() -> list[Stage]:
    """The Dockerfile, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    steps = [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]
    starts = [number for number, (word, _) in enumerate(steps) if word == "FROM"]
    return [Stage(tuple(steps[a:b])) for a, b in zip(starts, [*starts[1:], len(steps)], strict=True)]


@pytest.fixture(name="image", scope="module")
def _image() -> Iterator[Image]:
    """The build stage, run: its Python is a clean environment of the one that runs this."""
    build, final = stages()
    with TemporaryDirectory(prefix="podfit-image-") as folder:  # other users can't read pytest's own folders
        Path(folder).chmod(0o755)
        root = Path(folder, "root")
        root.mkdir()
        image = Image(root, final)
        _build(image, build)
        yield image


def _build(image: Image, build: Stage) -> None:
    root = image.root
    subprocess.run([_python(), "-m", "venv", root / "base"], check=True)
    # pip's cache saves a minute, and the files are checked by their hashes all the same.
    env = {"PATH": f"{root / 'base' / 'bin'}:/usr/bin:/bin", "HOME": os.environ["HOME"], "PIP_NO_CACHE_DIR": "0"}
    env |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http"))}
    at = root
    for word, rest in build.steps:
        match word:
            case "WORKDIR":
                at = Path(image.inside(rest))
                at.mkdir(parents=True, exist_ok=True)
            case "COPY":
                *sources, target = rest.split()
                for source in sources:
                    _copy(ROOT / source, at / target)
            case "RUN":
                done = subprocess.run(
                    ["/bin/sh", "-ec", image.inside(rest)], cwd=at, env=env, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, f"RUN {rest}\n{done.stdout}{done.stderr}"
            case _:
                assert word in ("FROM", "ENV"), word
    shutil.rmtree(root / "src")
    shutil.rmtree(root / "wheels")


def test_the_image_is_small_and_has_only_what_it_runs(image: Image) -> None:
    tree = image.root / "opt" / "podfit"
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    installed = {path.name.partition("-")[0].lower() for path in tree.glob("lib/python3*/site-packages/*.dist-info")}

    assert sum(path.stat().st_size for path in files) < 220 << 20, "the Kubernetes client and its byte code are 126 MiB"
    assert not {"pip", "setuptools", "pytest", "mypy", "hypothesis"} & installed
    assert not [path for path in files if "tests" in path.parts and "podfit" in path.relative_to(tree).parts]
    assert not [path for path in files if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


def test_every_step_names_what_it_takes_by_its_hash() -> None:
    build, final = stages()

    installs = [run for run in build.all("RUN") if "pip install" in run and "--no-deps" not in run]
    assert installs
    assert all("--require-hashes" in run for run in installs)
    assert final.all("RUN") == []
    assert final.all("USER") == ["65532:65532"]


@pytest.fixture(name="server")
def _server(image: Image) -> Iterator[tuple[int, Path]]:
    """The image's entry point and command on a read-only tree: its port, and its log."""
    log = image.root.parent / "podfit.log"
    tls = image.root / "etc" / "podfit" / "tls"
    certs.write(tls, [HOST])
    (tls / "tls.key").chmod(0o644)  # the kubelet gives it to the Pod's group
    (entry,), (words,) = (json.loads(image.final.all("ENTRYPOINT")[0]),), (image.final.all("CMD")[0],)
    command = [
        str(image.root / "opt/podfit/bin" / entry[0]),
        *json.loads(image.inside(words).replace(":8443", f"{HOST}:0")),
    ]
    env = dict(part.split("=", 1) for line in image.final.all("ENV") for part in shlex.split(line))
    for path in (image.root, *image.root.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    process = start(_as_its_user(image, command), log, {**env, "PATH": "/usr/bin:/bin"})
    try:
        port = until(
            "the image to serve", lambda: _serves(log) or (process.poll() is not None and -1), lambda: tail(log)
        )
        assert port > 0, tail(log)
        yield port, log
    finally:
        kill(process)
        for path in (image.root, *image.root.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | stat.S_IWUSR)


def test_it_serves_as_its_user_on_a_tree_that_nobody_may_write(image: Image, server: tuple[int, Path]) -> None:
    port, log = server
    before = sorted(image.root.rglob("*"))
    ca = image.root / "etc/podfit/tls/ca.crt"

    assert until("it to be ready", lambda: _ready(port, ca)) == 200
    assert f'version="{__version__}"' in fetch(f"https://{HOST}:{port}/metrics", ca)[1]
    assert sorted(image.root.rglob("*")) == before
    assert "ERROR" not in log.read_text()


def _ready(port: int, ca: Path) -> int | None:
    try:
        return fetch(f"https://{HOST}:{port}/readyz", ca)[0]
    except OSError:
        return None


def _serves(log: Path) -> int | None:
    found = re.search(r"serving on https://127\.0\.0\.1:(\d+)", log.read_text() if log.exists() else "")
    return int(found[1]) if found else None


def _as_its_user(image: Image, command: list[str]) -> list[str]:
    """As the image's user, on a read-only mount, if the tests run as root; else as the user who runs them."""
    if os.geteuid() != 0:
        return command
    user, group = image.final.all("USER")[0].split(":")
    drop = f"exec setpriv --reuid {user} --regid {group} --clear-groups --no-new-privs --bounding-set=-all -- "
    mount = f"mount --bind {image.root} {image.root} && mount -o remount,ro,bind {image.root} && "
    script = drop + shlex.join(command)
    mounts = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} ! touch {image.root}/written"], capture_output=True, check=False
    )
    return ["unshare", "-m", "sh", "-c", mount + script] if mounts.returncode == 0 else ["sh", "-c", script]


def _python() -> str:
    """A Python that every user may run: the one that runs this, or the system's."""
    mine = Path(sys.base_prefix, "bin", "python3")
    open_ = all(folder.stat().st_mode & 0o005 == 0o005 for folder in mine.resolve().parents)
    return str(mine) if open_ or os.geteuid() != 0 or not Path("/usr/bin/python3").exists() else "/usr/bin/python3"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target / source.name if target.is_dir() else target)
