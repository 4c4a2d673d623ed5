"""`podfit off`: the API server asks podfit nothing any more, until `podfit on`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from podfit.base.printable import one_line
from podfit.cli.support import certificate, edge, user_cluster
from podfit.cli.support.edge import UnusableError
from podfit.server import registration

if TYPE_CHECKING:
    from podfit.cluster.access import Client

MOMENT = "%Y-%m-%dT%H:%M:%SZ"
MAX_CONFLICTS = 5
"""How often another client may change a configuration between reading and writing it."""

JSON = Mapping[str, Any]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "off",
        help="pause podfit's webhooks until `podfit on`",
        description="Sets a match condition that is always false on every webhook of podfit's two configurations. "
        "Until `podfit on`, no object is checked, patched or denied, with any failurePolicy. Nothing else changes; "
        "upgrades keep it.",
        epilog=edge.examples(
            'podfit off --reason "every Pod waits for it"', 'podfit off --for 2h --reason "an urgent change"'
        ),
    )
    add_arguments(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="kept in the annotation podfit.dev/off")
    parser.add_argument(
        "--for",
        dest="lasting",
        type=certificate.duration,
        metavar="TIME",
        help="such as 30m or 2h: then API servers ask podfit again, with any certificates.mode",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register `--name` and `--context`."""
    parser.add_argument(
        "--name", metavar="NAME", help="of the configurations; default: those whose webhooks are named *.podfit.dev"
    )
    user_cluster.add_context(parser)


def run(args: argparse.Namespace) -> int:
    """Exit 0: off; 3: a configuration can't be read or changed."""
    from datetime import UTC, datetime

    reason, now = one_line(args.reason).strip(), datetime.now(UTC)
    at, until = (f"{moment:{MOMENT}}" if moment else None for moment in (now, args.lasting and now + args.lasting))
    done = switch(args, "off", lambda configuration: registration.off(configuration, reason, str(at), until, now))
    if until:
        print(f"it ends by itself at {until}")
    return done


Change = Callable[[JSON], dict[str, Any] | None]
"""A configuration → the merge patch to the wanted state; None if it has that state."""


def switch(args: argparse.Namespace, state: registration.State, change: Change) -> int:
    """Changes all of podfit's configurations, and says what was done to each."""
    with user_cluster.client(args) as client:
        paths = find(client, args.name)
        if not paths:
            which = f"named {args.name}" if args.name else f"whose webhooks are named *{registration.DOMAIN}"
            raise UnusableError(f"there is no webhook configuration {which} in this cluster", 3)
        for path in paths:
            text = path.removeprefix(f"{registration.ROOT}/")
            configuration = _switched(client, path, state, change)
            reason = registration.note(configuration)
            print(f"{text}: {state}" + (f", {reason}" if reason else ""))
    print(
        "API servers follow within seconds; " + ("undo it: podfit on" if state == "off" else "check it: podfit doctor")
    )
    return 0


def find(client: Client, name: str | None) -> list[str]:
    """The paths of podfit's configurations.

    Raises UnusableError if they can't be listed, or if there are configurations of several releases."""
    names = []
    for kind in registration.WEBHOOK_CONFIGURATIONS:
        with user_cluster.errors_reported(f"{kind} can't be listed"):
            names += configuration_paths(client, kind, name)
    return of_one_release(names)


def configuration_paths(client: Client, kind: str, name: str | None) -> list[str]:
    """The paths of podfit's configurations of a kind; raises StatusError or OSError if they can't be listed."""
    items = client.get(f"{registration.ROOT}/{kind}", {})["items"]
    ours = [item for item in items if (item["metadata"]["name"] == name if name else registration.is_ours(item))]
    return [f"{registration.ROOT}/{kind}/{item['metadata']['name']}" for item in ours]


def of_one_release(paths: list[str]) -> list[str]:
    """The paths; raises UnusableError if they belong to several releases."""
    if len(names := sorted({path.rpartition("/")[2] for path in paths})) > 1:
        raise UnusableError(f"there are several: {', '.join(names)}; say which with --name")
    return paths


def _switched(client: Client, path: str, state: registration.State, change: Change) -> JSON:
    """The configuration at `path` after the change; tries again if another client was faster. Raises UnusableError."""
    from podfit.cluster.access import StatusError

    text = path.removeprefix(f"{registration.ROOT}/")
    for _ in range(MAX_CONFLICTS):
        try:
            before = client.get_unreduced(path)
            if (patch := change(before)) is not None:
                client.patch(path, patch)
                before = client.get_unreduced(path)
        except StatusError as error:
            if error.code == 409:
                continue
            what = "you have no right to change it" if error.code == 403 else "it can't be changed"
            raise UnusableError(f"{text}: {what}: {error}", 3) from error
        except OSError as error:
            raise UnusableError(f"{text}: it can't be changed: {error}", 3) from error
        if registration.state(before) == state:
            return before
    raise UnusableError(f"{text}: another client keeps changing it; nothing was done", 3)
