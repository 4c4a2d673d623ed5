"""The kubectl plugin for krew: an archive with a launcher, and the manifest that names it with its hash.

python -m scripts.krew FOLDER: writes FOLDER/kubectl-podfit-VERSION.tar.gz and FOLDER/podfit.yaml.

podfit is a Python program with compiled dependencies, which krew can't install: the launcher starts the one on the
PATH, and says how to get it where there is none.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from podfit import __version__

HOME = "https://github.com/podfit/podfit"
ROOT = Path(__file__).parent.parent
LAUNCHER = f"""\
#!/bin/sh
# kubectl podfit: the podfit of this machine.
if ! command -v podfit >/dev/null 2>&1; then
  echo "kubectl podfit starts podfit, which is not installed: pipx install podfit=={__version__}" >&2
  exit 127
fi
exec podfit "$@"
"""


def archive() -> bytes:
    """The launcher and the license, the same bytes at each call."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, content, mode in (
            ("kubectl-podfit", LAUNCHER.encode(), 0o755),
            ("LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def manifest(packed: bytes) -> str:
    """What krew's index holds (krew.sigs.k8s.io/docs/developer-guide/plugin-manifest)."""
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
        "uri": f"{HOME}/releases/download/v{__version__}/kubectl-podfit-{__version__}.tar.gz",
        "sha256": hashlib.sha256(packed).hexdigest(),
        "bin": "kubectl-podfit",
    }
    spec = {
        "version": f"v{__version__}",
        "homepage": HOME,
        "shortDescription": "Tell whether a vLLM Pod will start and stay up",
        "description": "Computes whether weights and KV cache fit the GPUs, and whether host memory, /dev/shm and "
        "probes are adequate, before a Pod costs a GPU hour; tells what a dead one died of.\n",
        "caveats": f"Needs podfit itself: pipx install podfit=={__version__}\n",
        "platforms": [platform],
    }
    head = {"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin"}
    return yaml.safe_dump({**head, "metadata": {"name": "podfit"}, "spec": spec}, sort_keys=False, width=120)


def main(argv: Sequence[str]) -> int:
    """Writes both files."""
    if len(argv) != 1:
        print(__doc__)
        return 2
    folder = Path(argv[0])
    folder.mkdir(parents=True, exist_ok=True)
    packed = archive()
    (folder / f"kubectl-podfit-{__version__}.tar.gz").write_bytes(packed)
    (folder / "podfit.yaml").write_text(manifest(packed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
