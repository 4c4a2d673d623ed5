"""Mount, network, PID and cgroup namespaces around the tests: what they start, mount, route or limit ends with them.

The kernel removes processes, mounts, devices and iptables rules together with the namespaces. `run` removes the rest:
one folder, and one cgroup of each hierarchy. Their names hold the PID of their owner, so that the next run removes what
a killed one left.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.process import alive, die_with_parent

CGROUPS = Path("/sys/fs/cgroup")
NAME = "podfit-node-"
FOLDER, IMAGES = "PODFIT_NODE_FOLDER", "PODFIT_NODE_IMAGES"
"""Variables for the process inside: where it may write, and which images it has."""
PROGRAMS = ("unshare", "mount", "ip", "iptables", "conntrack", "dnsmasq", "runc")
"""On Debian: util-linux, iproute2, iptables, conntrack, dnsmasq-base and runc."""
PLUGINS = Path("/usr/lib/cni")
"""Debian's containernetworking-plugins."""
TUNABLES = {
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Files of /proc/sys that a kubelet sets for the whole machine (pkg/kubelet/cm/container_manager_linux.go). Inside they
are plain files with its values."""


def missing() -> str:
    """Why a node can't run on this machine; "" if it can."""
    if os.geteuid() != 0:
        return "it needs root, for namespaces, mounts and cgroups"
    if absent := [name for name in PROGRAMS if not shutil.which(name)]:
        return f"there is no {', '.join(absent)}"
    if not (PLUGINS / "bridge").exists():
        return f"there are no CNI plugins in {PLUGINS}"
    if not (CGROUPS / "memory").is_dir():
        return f"there is no cgroup v1 in {CGROUPS}"
    probe = f"{NAME}{os.getpid()}-probe"
    try:
        _make_cgroups(probe)
    except OSError as error:
        return f"cgroups can't be made: {error}"
    finally:
        _remove_cgroups(probe)
    tried = subprocess.run(
        ["unshare", "-m", "-n", "-p", "-C", "-f", "true"], capture_output=True, text=True, check=False
    )
    return f"namespaces can't be made: {tried.stderr.strip()}" if tried.returncode else ""


def run(command: Sequence[str], images: Path) -> int:
    """Runs the command in namespaces of its own; returns its exit code."""
    sweep()
    name = f"{NAME}{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    folder.chmod(0o755)  # the users of containers read volumes in it
    inside = ["unshare", "-m", "-n", "-p", "-C", "-f", "--kill-child", "--mount-proc", *command]
    try:
        cgroups = _make_cgroups(name)

        def enter() -> None:
            die_with_parent()
            _join(cgroups, os.getpid())

        env = {**os.environ, FOLDER: str(folder), IMAGES: str(images)}
        return subprocess.run(inside, env=env, preexec_fn=enter, check=False).returncode
    finally:
        _remove_cgroups(name)
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Removes what killed runs left."""
    for found in [*Path(tempfile.gettempdir()).glob(f"{NAME}*"), *CGROUPS.glob(f"*/{NAME}*")]:
        pid = re.match(rf"{NAME}(\d+)", found.name)
        if pid and not alive(int(pid[1])):
            if found.is_relative_to(CGROUPS):
                _remove_cgroups(found.name)
            else:
                shutil.rmtree(found, ignore_errors=True)


def prepare() -> None:
    """Inside: cgroups and /proc/sys of one's own, and nothing that is written outlives the mount namespace."""
    for hierarchy in _hierarchies():
        subprocess.run(["umount", hierarchy], check=True)
        kind = ["cgroup2"] if hierarchy.name == "unified" else ["cgroup", "-o", _option(hierarchy)]
        subprocess.run(["mount", "-t", *kind, "cgroup", hierarchy], check=True)
    for path in ("/run", "/var/lib", "/var/log"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    files = Path("/run/tunables")
    for name, value in TUNABLES.items():
        file = files / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        subprocess.run(["mount", "--bind", file, Path("/proc/sys") / name], check=True)


def _hierarchies() -> list[Path]:
    return [path for path in sorted(CGROUPS.iterdir()) if path.is_mount() and not path.is_symlink()]


def _option(hierarchy: Path) -> str:
    return "none,name=systemd" if hierarchy.name == "systemd" else hierarchy.name


def _make_cgroups(name: str) -> list[Path]:
    made = [hierarchy / name for hierarchy in _hierarchies()]
    for cgroup in made:
        cgroup.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new one, and then it takes no process
            if (own := cgroup / setting).exists():
                own.write_text((cgroup.parent / setting).read_text())
    return made


def _join(cgroups: Sequence[Path], pid: int) -> None:
    for cgroup in cgroups:
        (cgroup / "cgroup.procs").write_text(str(pid))


def _remove_cgroups(name: str) -> None:
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            _remove(Path(folder))


def _remove(cgroup: Path) -> None:
    for _ in range(100):  # its last process may still be on its way out
        try:
            cgroup.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
