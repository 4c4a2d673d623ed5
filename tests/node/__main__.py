"""`python -m tests.node [PYTEST ARGUMENT…]`: builds what the tests of this folder need, and runs them in namespaces of
their own. Without root, cgroup v1 or one of the programs it says so, and exits with 0."""

from __future__ import annotations

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.e2e import binaries
from tests.node import image, namespaces


def main() -> int:
    """The exit code of pytest; 0 where the node can't run on this machine, 1 where something can't be built."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(prog="python -m tests.node", description=__doc__)
    parser.add_argument("--base", help="an image with Python, for podfit's Dockerfile (default: made by debootstrap)")
    parser.add_argument("--prepare", action="store_true", help="build the programs and images, run no test")
    parser.add_argument("--broken", action="store_true", help="run the checks against a broken podfit: they must fail")
    options, arguments = parser.parse_known_args()
    if reason := namespaces.missing() or image.missing():
        print(f"make node: skipped: {reason}")
        return 0
    try:
        with ThreadPoolExecutor(1) as beside:  # the images wait for the network and for disks, the programs do not
            layout = beside.submit(image.built, options.base)
            binaries.find()
            binaries.node()
            images = layout.result()
    except (binaries.MissingError, image.BuildError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.prepare:
        return 0
    tests = "tests/node/broken.py" if options.broken else "tests/node"
    return namespaces.run([sys.executable, "-m", "pytest", "-q", tests, *arguments], images)


if __name__ == "__main__":
    sys.exit(main())
