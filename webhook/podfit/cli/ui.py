"""`podfit ui`: one local page with what `plan`, `check`, `fix` and `policy diff` compute."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import podfit
from podfit.cli.support import edge, policies
from podfit.ui.desk import Desk, Opened, OpenedFile, ShippedPolicy

HOST = "127.0.0.1"
_PACKAGE = Path(podfit.__file__).parent
_EXAMPLES = (
    _PACKAGE.parents[1] / "examples",
    *(prefix / "share" / "podfit" / "examples" for prefix in _PACKAGE.parents[3:4]),
    _PACKAGE.parent / "share" / "podfit" / "examples",
)
"""Where podfit's examples are: in a checkout, below an environment's prefix, and next to what `pip --target` wrote."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "ui",
        help="a local page: sizes to play with, findings at their lines, the effect of a policy",
        description=f"Serves one page on {HOST} until Ctrl-C and prints its URL, which contains a random token. "
        "The page works offline; nothing is written.",
        epilog=edge.examples("podfit ui --open", "podfit ui --open deploy/", "podfit ui --gpu l40s:2"),
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="PATH",
        help="manifests for Check and Policy effect: files, folders; default: podfit's examples",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: a free port")
    edge.add_gpu(parser)
    edge.add_models(parser)
    policies.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl-C; 0 then."""
    from threading import Thread

    from werkzeug.serving import WSGIRequestHandler, make_server

    from podfit.ui import effect
    from podfit.ui.app import create_app

    class Handler(WSGIRequestHandler):
        """Keeps connections, and logs no request: the URLs contain the token."""

        protocol_version = "HTTP/1.1"

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Logs nothing."""

    if not 0 <= args.port < 1 << 16:
        raise edge.UnusableError(f"--port {args.port}: not a port from 0 to 65535")
    token = secrets.token_urlsafe(24)
    desk = _desk(args)
    app = create_app(token, desk)
    try:
        server = make_server(HOST, args.port, app, threaded=True, request_handler=Handler)
    except (OSError, SystemExit) as error:  # werkzeug exits if the port is taken
        raise edge.UnusableError(f"--port {args.port}: can't listen on {HOST}:{args.port}", 3) from error
    url = f"http://{HOST}:{server.port}/{token}/"
    print(url, flush=True)
    Thread(target=effect.prepare, args=[desk], daemon=True).start()
    with TemporaryDirectory(prefix="podfit-") as folder:  # mode 0700
        if args.open:
            _open(url, Path(folder) / "open.html")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            server.server_close()
    return 0


_REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={url}">
<title>podfit</title>
<a href="{url}">{url}</a>
"""


def _open(url: str, redirect: Path) -> None:
    """Open the page in the browser, by way of a file that only this user can read.

    The URL contains the token, and every user of the machine can see the arguments of a browser."""
    import webbrowser

    with open(redirect, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(_REDIRECT.format(url=url))
    if not webbrowser.open(redirect.as_uri()):
        edge.tell("note: no browser could be started; open the URL")


def _desk(args: argparse.Namespace) -> Desk:
    """The data for the page; the files are read again if one has changed."""
    facts = edge.facts(args)
    names = args.files or _examples()
    opened: tuple[Sequence[tuple[str, float]], Opened] | None = None

    def state() -> list[tuple[str, float]]:
        """Each file with the time of its last change; raises UnusableError."""
        return [(name, Path(name).stat().st_mtime) for name in edge.files(names) if Path(name).exists()]

    def open_files() -> Opened:
        """The manifests as they are now, read again only if a file has changed; the problems alone if that fails."""
        nonlocal opened
        try:
            now = state()
            if opened is None or opened[0] != now:
                sources, problems = edge.read(names, facts)
                files = [
                    OpenedFile(manifest_file, edge.read_text(Path(manifest_file.name)))
                    for manifest_file in sources
                    if Path(manifest_file.name).exists()
                ]
                opened = now, Opened(files, problems)
        except edge.UnusableError as error:
            return Opened(problems=error.lines)
        return opened[1]

    if "-" in args.files:
        raise edge.UnusableError("ui reads files and folders, not standard input; paste the manifest into the page")
    if missing := [name for name in edge.files(args.files) if not Path(name).exists()]:
        raise edge.UnusableError([f"{name}: no such file or directory" for name in missing], 3)
    return Desk(
        policies.load(args.policy),
        facts,
        edge.now,
        lambda pairs: edge.read([], facts, pairs),
        open_files,
        {name: ShippedPolicy(policies.title(name), policies.shipped_text(name)) for name in policies.SHIPPED},
        gpu=args.gpu or "",
        is_example=bool(names) and not args.files,
    )


def _examples() -> list[str]:
    """The files of podfit's examples; [] if this installation has none."""
    items = (sorted(map(str, folder.glob("*.yaml"))) for folder in _EXAMPLES)
    return next(filter(None, items), [])
