"""The programs of a control plane: those on this machine, or built once from pinned Go modules.

`python -m tests.e2e.binaries [TOOL…]` builds what is missing and says where everything is. Go keeps nothing of ours:
the programs lie in `$PODFIT_E2E_CACHE` (default `~/.cache/podfit/e2e`), in a folder named by the hash of what made
them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
NEWEST, OLDEST, NODE = "controlplane", "oldest", "node"
"""The two pinned API servers, by the folder of their module. All tests run against the newest; the oldest
that the chart allows runs for the tests of the chart, its CRD and its conditions. NODE: the other programs of a node,
for tests/node."""
ASSETS_FROM = (1, 34)
"""The oldest API server in $KUBEBUILDER_ASSETS that all tests are for."""


class MissingError(Exception):
    """A program is not there and can't be built; the text says how to get it."""


@dataclass(frozen=True)
class Module:
    """A Go module of ours that pins the programs of others."""

    folder: Path
    packages: Mapping[str, str]
    """Program → Go package."""
    flags: str = "-s -w"
    """The linker's arguments."""
    tags: str = ""
    """Build tags, separated by commas."""


def _version(module: str, folder: Path) -> str:
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", (folder / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise MissingError(f"{folder / 'go.mod'} does not name a version of {module}")
    return found[1]


TOOLS = {
    "actionlint": Module(HERE / "actionlint", {"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"}),
    "helm": Module(HERE / "helm", {"helm": "helm.sh/helm/v3/cmd/helm"}),
    "promtool": Module(HERE / "promtool", {"promtool": "github.com/prometheus/prometheus/cmd/promtool"}),
}
"""Programs that other tests want, too: those of the workflows, the chart and the alerts."""

CONTAINERD = Module(
    HERE / "containerd",
    {
        name: f"github.com/containerd/containerd/v2/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    tags="no_btrfs,no_devmapper,no_zfs,no_tracing",  # of the snapshotters only overlayfs is used
)
"""Its go.mod has the versions of NODE's where both need a module, so that Go compiles it once."""


def _kubernetes(name: str, packages: Mapping[str, str]) -> Module:
    """A module that pins Kubernetes, and the programs that are built of it."""
    folder = HERE / name
    version = _version("k8s.io/kubernetes", folder)
    major, minor, _ = version.split(".", 2)
    stamp = "-X k8s.io/component-base/version."  # without it an API server believes that it is 0.0.0
    return Module(
        folder, packages, f"-s -w {stamp}gitVersion=v{version} {stamp}gitMajor={major} {stamp}gitMinor={minor}"
    )


def _control_plane() -> Module:
    return _kubernetes(
        NEWEST,
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        },
    )


def _oldest() -> Module:
    return _kubernetes(OLDEST, {"kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"})


@dataclass(frozen=True)
class Programs:
    """Where everything is."""

    etcd: Path
    apiserver: Path
    controllers: Path | None
    """None for the oldest API server, and if $KUBEBUILDER_ASSETS has none: setup-envtest brings no controller
    manager."""
    kubectl: Path
    helm: Path


def find(version: str = NEWEST) -> Programs:
    """Finds all programs, and builds those that are not there; raises MissingError. OLDEST has the same etcd and
    kubectl, and no controllers."""
    if version == OLDEST:
        if not shutil.which("go"):
            raise MissingError(_how_to_get(["kube-apiserver"]))
        oldest = _built(_oldest(), ["kube-apiserver"])
        return replace(find(), apiserver=oldest["kube-apiserver"], controllers=None)
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    kubernetes = _control_plane()
    folder = Path(assets) if assets else None
    if folder:
        _check_assets(folder)
    here = {name: _own(name) for name in ("kubectl", "helm")}
    if folder:
        here |= {name: _executable(folder / name) for name in ("etcd", "kube-apiserver", "kube-controller-manager")}
        here["kubectl"] = here["kubectl"] or _executable(folder / "kubectl")
    wanted = [name for name in kubernetes.packages if not here.get(name)]
    if folder:
        wanted = [name for name in wanted if name == "kubectl"]
    missing = [*wanted, *(["helm"] if not here["helm"] else [])]
    if missing and not shutil.which("go"):
        raise MissingError(_how_to_get(missing))
    found = {name: Path(path) for name, path in here.items() if path}
    found |= _built(kubernetes, wanted)
    if not here["helm"]:
        found |= _built(TOOLS["helm"], ["helm"])
    return Programs(
        found["etcd"],
        found["kube-apiserver"],
        found.get("kube-controller-manager"),
        found["kubectl"],
        found["helm"],
    )


def node() -> dict[str, Path]:
    """kubelet, kube-proxy, kube-scheduler, and containerd with its shim and ctr by name, built where they are not
    there; raises MissingError."""
    kubernetes = _kubernetes(
        NODE, {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy", "kube-scheduler")}
    )
    if not shutil.which("go"):
        raise MissingError(_how_to_get([*kubernetes.packages, *CONTAINERD.packages]))
    return {
        name: path
        for module in (kubernetes, CONTAINERD)
        for name, path in _built(module, list(module.packages)).items()
    }


def tool(name: str) -> str | None:
    """One of TOOLS, without building anything: the machine's, or one that was built before."""
    if here := _own(name):
        return here
    return _executable(cache() / _key(TOOLS[name]) / name) if shutil.which("go") else None


def get(name: str) -> Path:
    """One of TOOLS, built where it is not there; raises MissingError."""
    if here := tool(name):
        return Path(here)
    if not shutil.which("go"):
        raise MissingError(_how_to_get([name]))
    return _built(TOOLS[name], [name])[name]


def _own(name: str) -> str | None:
    """The machine's: $HELM, on PATH, or where `go install` puts it."""
    return os.environ.get(name.upper()) or shutil.which(name) or _executable(Path.home() / "go" / "bin" / name)


def _executable(path: Path) -> str | None:
    return str(path) if os.access(path, os.X_OK) and path.is_file() else None


def _check_assets(folder: Path) -> None:
    for name in ("etcd", "kube-apiserver"):
        if not _executable(folder / name):
            raise MissingError(f"KUBEBUILDER_ASSETS is {folder}, and there is no {name} in it")
    said = subprocess.run(
        [folder / "kube-apiserver", "--version"], capture_output=True, text=True, check=False, timeout=60
    ).stdout
    version = re.search(r"v(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < ASSETS_FROM:
        raise MissingError(
            f"KUBEBUILDER_ASSETS is {folder}, its kube-apiserver says {said.strip()!r}; "
            f"the tests need {ASSETS_FROM[0]}.{ASSETS_FROM[1]} or newer"
        )


def _how_to_get(missing: list[str]) -> str:
    lines = [
        f"This needs {', '.join(missing)}, and there is no Go (1.21 or newer) to build "
        f"{'it' if len(missing) == 1 else 'them'} with.",
        "Any one of these:",
        "  - install Go from https://go.dev/dl/: what is missing is then built once, from the versions that",
        f"    tests/e2e/*/go.mod pin, into {cache()} (some ten minutes)",
    ]
    if "etcd" in missing:
        lines += [
            "  - unpack an archive of https://github.com/kubernetes-sigs/controller-tools/releases (envtest-v1.34.0 or",
            "    newer), or let `setup-envtest use` do it, and set KUBEBUILDER_ASSETS to kube-apiserver's folder",
        ]
    if "kubectl" in missing:
        lines += ["  - kubectl alone: https://kubernetes.io/docs/tasks/tools/, on PATH or in $KUBECTL"]
    if "helm" in missing:
        lines += ["  - helm alone: https://helm.sh/docs/intro/install/, on PATH or in $HELM"]
    if "promtool" in missing:
        lines += ["  - promtool alone: with Prometheus (https://prometheus.io/download/), on PATH or in $PROMTOOL"]
    return "\n".join(lines)


def cache() -> Path:
    """Where built programs are kept."""
    if own := os.environ.get("PODFIT_E2E_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podfit" / "e2e"


def _built(module: Module, wanted: list[str]) -> dict[str, Path]:
    """The programs, built where they are not in the cache yet."""
    if not wanted:
        return {}
    folder = cache() / _key(module)
    if missing := [name for name in wanted if not _executable(folder / name)]:
        with _alone(folder):
            # Another run may have built some while this one waited.
            if missing := [name for name in missing if not _executable(folder / name)]:
                _build(module, missing, folder)
    return {name: folder / name for name in wanted}


def _key(module: Module) -> str:
    """Names the folder: whatever changes the programs changes it."""
    made_of = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        made_of.update((module.folder / name).read_bytes())
    made_of.update(f"{sorted(module.packages.items())} {module.flags}{module.tags}".encode())
    made_of.update(_go(module, "env", "GOVERSION", "GOOS", "GOARCH").encode())
    return f"{module.folder.name}-{made_of.hexdigest()[:16]}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One build at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(module: Module, names: Sequence[str], folder: Path) -> None:
    """All in one call of Go, so that no processor waits for the linker of the last."""
    print(f"building {', '.join(names)} into {folder} (once; minutes)", file=sys.stderr, flush=True)
    work = folder / "work"  # Go's own temporary files: gone even where a build was killed
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        _go(
            module,
            "build",
            "-trimpath",
            "-ldflags",
            module.flags,
            "-tags",
            module.tags,
            "-o",
            f"{work}/",
            *(module.packages[name] for name in names),
            tmp=work,
        )
        for name in names:
            (work / _file(module.packages[name])).replace(folder / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _file(package: str) -> str:
    """What Go calls the program of a package: the last part of its path that is not a version."""
    *_, parent, last = package.split("/")
    return parent if re.fullmatch(r"v\d+", last) else last


def _go(module: Module, *arguments: str, tmp: Path | None = None) -> str:
    env = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    if tmp:
        env["GOTMPDIR"] = str(tmp)
    done = subprocess.run(
        ["go", *arguments], cwd=module.folder, env=env, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise MissingError(f"in {module.folder}: go {arguments[0]} failed, see above")
    return done.stdout


def main() -> int:
    """Builds what is missing, says where everything is: of the control planes, or of the TOOLS that are named."""
    try:
        found = {name: get(name) for name in sys.argv[1:]} or {**vars(find()), OLDEST: find(OLDEST).apiserver}
    except MissingError as error:
        print(error, file=sys.stderr)
        return 1
    for name, path in found.items():
        print(f"{name:12} {path or 'none: the tests that need controllers are skipped'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
