"""The images that the node has, built by buildah, which needs no daemon, and kept in `~/.cache/podfit/node`.

podfit's are built from a Dockerfile. The pause image and the stand-in for vLLM are small changes of the same base.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tests.e2e import binaries
from tests.e2e.release import ROOT

PODFIT = "registry.example.com/podfit:0.2.0"
"""As the installation guide calls it."""
FIRST = "registry.example.com/podfit:first"
FIRST_COMMIT = "862b3cf51cc0bace5fc9f4e163477a68e247152f"
"""The first commit whose image and chart make a podfit; its version was 0.1.0."""
PAUSE = "localhost/pause:node"
VLLM = "docker.io/vllm/vllm-openai:v0.27.1"
"""The stand-in has a name that podfit reads as vLLM's."""
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
UNUSED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists")
"""More than half of what debootstrap leaves: each run of the tests would unpack it."""
TRUST = ("/etc/ssl/certs", "/etc/pip.conf")
"""What pip needs of this machine to reach its index: mounted while an image is built, not part of it."""


class BuildError(Exception):
    """A command of the build failed; the text has the end of what it printed."""


def missing() -> str:
    """Why no image can be built on this machine; "" if it can."""
    absent = [name for name in ("buildah", "debootstrap") if not shutil.which(name)]
    return f"there is no {', '.join(absent)}" if absent else ""


def built(python: str | None = None) -> Path:
    """An OCI layout with all images; only what changed is built. `python` is the base image, by default one of Debian's
    packages; raises BuildError."""
    base = python or _base()
    images = {
        PODFIT: _podfit(base, ROOT),
        FIRST: _first(base),
        PAUSE: _changed(base, '["sleep","infinity"]'),
        VLLM: _changed(base, '["vllm","serve"]', Path(__file__).with_name("vllm.py")),
    }
    key = hashlib.sha256(str(sorted(images.items())).encode()).hexdigest()[:16]
    layout = _cache() / f"images-{key}"
    if not layout.exists():
        for old in _cache().glob("images-*"):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=_cache()) as folder:
            for name, image in images.items():
                _buildah("push", "--compression-format=zstd", image, f"oci:{folder}/layout:{name}")
            Path(folder, "layout").rename(layout)
    return layout


def _podfit(base: str, source: Path) -> str:
    """The ID of podfit's image from that source tree; built once for the same files on the same base."""
    name = f"localhost/podfit:{_digest(base, source)}"
    if found := _found(name):
        return found
    trust = [f"--volume={path}:{path}:ro" for path in TRUST if Path(path).exists()]
    # Each RUN in a chroot with the network of this machine: no container runtime, no bridge.
    built = _made(
        "build", "--layers", "--isolation=chroot", "--network=host", *trust, f"--build-arg=PYTHON={base}", str(source)
    )  # fmt: skip
    _buildah("tag", built, name)
    return built


def _digest(base: str, source: Path) -> str:
    """Of the base, the Dockerfile, and all that .dockerignore lets it copy."""
    lines = (source / ".dockerignore").read_text().splitlines()
    copied = [source / line[1:] for line in lines if line.startswith("!")]
    files = {path for root in copied for path in (root, *root.rglob("*")) if "__pycache__" not in path.parts}
    made_of = hashlib.sha256(base.encode())
    for path in sorted({source / "Dockerfile", *files}):
        if path.is_file():
            made_of.update(f"\0{path.relative_to(source)}\0".encode() + path.read_bytes())
    return made_of.hexdigest()[:16]


def _found(name: str) -> str:
    """The ID of the image that had that name before this run; "" if there was none."""
    return _images().get(name, "")


@cache
def _images() -> Mapping[str, str]:
    """The ID of each image in the store, by its name."""
    lines = _buildah_lines("images", "--noheading", "--no-trunc", "--format={{.Name}}:{{.Tag}} {{.ID}}")
    return dict(line.split() for line in lines)


def first_sources(folder: Path) -> None:
    """The source tree of the first release."""
    _run("git", "-C", str(ROOT), "archive", f"--output={folder}/.first.tar", FIRST_COMMIT)
    _run("tar", "-x", "-C", str(folder), "-f", f"{folder}/.first.tar")


def _first(base: str) -> str:
    """The ID of the first release's image."""
    with tempfile.TemporaryDirectory() as folder:
        first_sources(Path(folder))
        return _podfit(base, Path(folder))


def _base() -> str:
    """The ID of an image of Debian's Python, made by debootstrap once."""
    name = f"localhost/python:{SUITE}-slim"
    if found := _found(name):
        return found
    with tempfile.TemporaryDirectory(dir=_cache()) as folder:
        print(f"$ debootstrap … {SUITE}", file=sys.stderr, flush=True)
        _run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, f"{folder}/root")
        root = Path(folder, "root")
        root.joinpath("usr/bin/python").symlink_to("python3")
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):  # pip installs into the base, as in python:3.13
            marker.unlink()
        for unused in UNUSED:
            shutil.rmtree(root / unused)
        _run("tar", "-C", str(root), "-cf", f"{folder}/root.tar", ".")
        container = _buildah("from", "scratch")
        _buildah("add", container, f"{folder}/root.tar", "/")
        _buildah("config", "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
        return _made("commit", "--quiet", "--rm", container, name)


def _changed(base: str, entrypoint: str, program: Path | None = None) -> str:
    """The ID of the base with another entrypoint, and a program of that name where one is given."""
    content = program.read_bytes() if program else b""
    key = hashlib.sha256(f"{base} {entrypoint} ".encode() + content).hexdigest()[:16]

    def write(folder: Path) -> None:
        lines = [f"FROM {base}"]
        if program:
            shutil.copy(program, folder / program.stem)
            lines += [f"COPY --chmod=755 {program.stem} /usr/local/bin/{program.stem}"]
        (folder / "Dockerfile").write_text("\n".join([*lines, f"ENTRYPOINT {entrypoint}\n"]))

    return _built_once(f"localhost/changed:{key}", write)


def _built_once(name: str, write: Callable[[Path], None]) -> str:
    """The ID of the image of that name, built of the folder that `write` fills if there is none."""
    if found := _found(name):
        return found
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        built = _made("build", "--layers", "--isolation=chroot", folder)
    _buildah("tag", built, name)
    return built


def _cache() -> Path:
    folder = binaries.cache().parent / "node"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _made(command: str, *arguments: str) -> str:
    """The ID of the image that a command makes, in the form that `buildah images` lists."""
    return f"sha256:{_buildah(command, *arguments).removeprefix('sha256:')}"


def _buildah(command: str, *arguments: str) -> str:
    """The last line of what it printed; "" if it printed nothing."""
    return (_buildah_lines(command, *arguments) or [""])[-1]


def _buildah_lines(command: str, *arguments: str) -> list[str]:
    """What it printed, by lines. In a mount namespace of its own: its storage driver leaves mounts."""
    with tempfile.TemporaryDirectory(prefix="podfit-buildah-") as run:
        print(f"$ buildah {command} … {arguments[-1]}", file=sys.stderr, flush=True)
        store = ["--root", str(_cache() / "storage"), "--runroot", run, "--storage-driver", "overlay"]
        return _run("unshare", "-m", "buildah", *store, command, *arguments).splitlines()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"$ {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout.strip()
