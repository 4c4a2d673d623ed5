"""`podfit certs`: a CA and a serving certificate in a folder, renewed only where needed."""

from __future__ import annotations

import argparse
from pathlib import Path

from podfit.cli.support import edge
from podfit.cli.support.edge import UnusableError

HOSTS = ("localhost", "127.0.0.1")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "certs",
        help="create a CA and a serving certificate",
        description="Writes ca.crt, ca.key, tls.crt and tls.key. Valid files are kept. A certificate is issued again "
        "if it is missing, past two thirds of its lifetime, or for other hosts.",
        epilog=edge.examples("podfit certs --dir certs --host podfit.podfit-system.svc"),
    )
    parser.add_argument("--dir", type=Path, default=Path("certs"), metavar="DIR", help="default: certs")
    parser.add_argument(
        "--host",
        action="append",
        metavar="NAME",
        help=f"DNS name or IP address of the server, several times (default: {' and '.join(HOSTS)}); in a cluster "
        "SERVICE.NAMESPACE.svc",
    )


def run(args: argparse.Namespace) -> int:
    """Issues what is missing, and says what there is."""
    from podfit.server import certs

    hosts = args.host or list(HOSTS)
    try:
        written = certs.write(args.dir, hosts)
        until = certs.not_after((args.dir / "tls.crt").read_bytes())
    except ValueError as error:
        raise UnusableError(f"--host {' '.join(hosts)}: {error}") from error
    except OSError as error:
        raise UnusableError(f"{error.filename or args.dir}: {(error.strerror or 'unusable').lower()}", 3) from error
    for path in written:
        print(f"{path}: written")
    print(f"{args.dir / 'tls.crt'}: for {', '.join(hosts)}, until {until:%Y-%m-%d}")
    return 0
