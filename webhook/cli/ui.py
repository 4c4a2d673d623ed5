"""`podfit ui`: one local page with what `plan`, `check` and `policy diff` compute."""

from __future__ import annotations

import argparse
import secrets

from webhook.cli.support import edge, policies

HOST = "127.0.0.1"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "ui",
        help="a local page: sizes to play with",
        description=f"Serves one page on {HOST} until Ctrl-C and prints its URL, which contains a random token. "
        "The page works offline; nothing is written.",
        epilog=edge.examples("podfit ui --open", "podfit ui --gpu l40s"),
        formatter_class=edge.Examples,
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: a free port")
    edge.add_gpu(parser)
    edge.add_models(parser)
    policies.add_argument(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl-C; 0 then."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    from webhook.ui.app import Desk, create_app

    class Handler(WSGIRequestHandler):
        """Keeps connections, and logs no request: the URLs contain the token."""

        protocol_version = "HTTP/1.1"

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Logs nothing."""

    if not 0 <= args.port < 1 << 16:
        raise edge.UnusableError(f"--port {args.port}: not a port from 0 to 65535")
    token = secrets.token_urlsafe(24)
    app = create_app(token, Desk(policies.load(args.policy), edge.facts(args), args.gpu or ""))
    try:
        server = make_server(HOST, args.port, app, threaded=True, request_handler=Handler)
    except (OSError, SystemExit) as error:  # werkzeug exits if the port is taken
        raise edge.UnusableError(f"--port {args.port}: can't listen on {HOST}:{args.port}", 3) from error
    url = f"http://{HOST}:{server.port}/{token}/"
    print(url, flush=True)
    if args.open:
        import webbrowser

        webbrowser.open(url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0
