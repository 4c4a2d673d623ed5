"""`podfit scan`: checks every vLLM workload of a running cluster. It only reads, page by page."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.base.secret import FORMS
from podfit.cli.support import edge, fail_on, policies, project, terminal, user_cluster
from podfit.cli.support.edge import UnusableError
from podfit.cli.support.format_option import FormatOption, Output
from podfit.evaluation import denial
from podfit.kube import selector
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.report import paint, policy_report
from podfit.rules import all_rules
from podfit.rules.rule import Level

if TYPE_CHECKING:
    from podfit.cluster.access import Client
    from podfit.evaluation.policy import Policy
    from podfit.evaluation.scan import Key, Scan
    from podfit.evaluation.scan.drift import Drift

FORMATS = FormatOption(("text", "json", "html", "policyreport"))
MODES = ("deny", "warn", "audit", "ignore")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "scan",
        help="check every vLLM workload of a running cluster",
        description="Reads the workloads of a cluster page by page and checks each one that runs vLLM, together with "
        "nodes, claims, Services, autoscalers and budgets. Changes nothing. Reports the kinds that you may "
        "not read, and continues with the rest. The policy is the one in force in the cluster: the installed "
        "podfit's, or instead of it --policy, and the Policy objects.",
        epilog="examples: podfit scan\n"
        "          podfit scan -n chat --format html=chat.html --format text\n"
        "          podfit scan --what-if startup-probe-missing=deny\n"
        "          podfit scan --drift --prometheus http://localhost:9090\n"
        "          podfit scan --what-if policies/strict.yaml --kinds Deployment,StatefulSet\n"
        "docs/scan.md shows what it prints",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", metavar="NAME", help="only this one; default: all")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, the default")
    user_cluster.add_context(parser)
    parser.add_argument(
        "-l", "--selector", type=_selector, metavar="SELECTOR", help="of the workloads' labels, as kubectl has it"
    )
    parser.add_argument(
        "--kinds", type=_kinds, metavar="KIND,…", help="only these, as in Deployment,InferenceService.serving.kserve.io"
    )
    policies.add_argument(parser, cluster=True)
    edge.add_gpu(parser)
    edge.add_models(parser)
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="RULE=MODE|FILE|NAME",
        help="show which workloads would be denied if a rule had this mode (deny), or with a policy added, and "
        "enforce.mode limited nothing",
    )
    FORMATS.add_argument(parser)
    parser.add_argument(
        "--limit", type=_limit, default=5, metavar="N", help="workloads shown of a rule in the text; 0: all; default: 5"
    )
    parser.add_argument(
        "--fail-on",
        type=fail_on.level_or_never,
        default="denied",
        metavar=f"{fail_on.NAMES}|never",
        help="the lowest level that ends with exit code 1; default: denied",
    )
    parser.add_argument(
        "--drift",
        action="store_true",
        help="compare planned with used memory, GPU and host: from --prometheus, else from the Pods' start-up logs",
    )
    parser.add_argument("--prometheus", metavar="URL", help="of --drift: http://prometheus.monitoring:9090")
    parser.add_argument(
        "--prometheus-token", type=Path, metavar="FILE", help="a bearer token for --prometheus, if it requires one"
    )
    parser.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="write podfit_planned_bytes … for node-exporter's textfile collector",
    )
    parser.add_argument(
        "--serve", type=_address, metavar="HOST:PORT", help="serve those as /metrics, and scan again and again"
    )
    parser.add_argument("--every", type=_minutes, default=15.0, metavar="MINUTES", help="of --serve; default: 15")
    parser.add_argument(
        "--write-reports",
        action="store_true",
        help="write a PolicyReport (wgpolicyk8s.io, openreports.io: what the cluster has) for each workload",
    )
    parser.add_argument(
        "--write-events",
        action="store_true",
        help="of --serve: create an Event for each workload that is denied or likely fails, at most 20 a minute",
    )
    project.add_arguments(parser)


def _selector(value: str) -> selector.Selector:
    try:
        return selector.parse(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _kinds(value: str) -> frozenset[Key]:
    """Kinds by their name, in upper or lower case, singular or plural; with a group if two kinds have the same name."""
    chosen: set[Key] = set()
    for word in filter(None, (kind_name.strip() for kind_name in value.split(","))):
        name, _, group = word.lower().partition(".")
        kinds = {
            (its, kind) for its, kind in WORKLOAD_KINDS
            if name in (kind.lower(), f"{kind.lower()}s", f"{kind.lower().removesuffix('y')}ies")
            and (not group or group == its)
        }  # fmt: skip
        if not kinds:
            known = ", ".join(sorted({kind for _, kind in WORKLOAD_KINDS}))
            raise argparse.ArgumentTypeError(f"{word!r} is not a kind that creates Pods (allowed: {known})")
        chosen |= kinds
    return frozenset(chosen)


def _limit(value: str) -> int:
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of workloads")
    return int(value)


def _address(value: str) -> tuple[str, int]:
    """`HOST:PORT` → both; the host is empty for every interface. Raises ArgumentTypeError."""
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{value!r} is not a valid HOST:PORT; :9095 is every interface")
    return host.strip("[]"), int(port)


def _minutes(value: str) -> float:
    """A number of minutes from 0.1 to 10,000; raises ArgumentTypeError."""
    try:
        minutes = float(value)
    except ValueError:
        minutes = 0.0
    if not 0.1 <= minutes <= 10_000:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of minutes from 0.1 to 10000")
    return minutes


def run(args: argparse.Namespace) -> int:
    """Scans and prints; returns 0 if nothing is denied, 1 if something is, 3 if something could not be checked.

    With --drift it returns 0 or 3."""
    if (args.prometheus or args.prometheus_token) and not args.drift:
        raise UnusableError("--prometheus belongs to --drift")
    if args.write_events and args.serve is None:
        raise UnusableError("--write-events belongs to --serve")
    project.announce(project.apply(args, with_gpu=False))
    if args.serve is not None:
        return _serve(args)
    outputs, drift = FORMATS.chosen(args, "html"), None
    start = time.monotonic()
    with user_cluster.client(args) as client:
        scan = read(args, client)
        if args.metrics:
            _metrics(args.metrics, scan, time.monotonic() - start)
        if args.write_reports:
            write_reports(args, client, scan)
        if args.drift:
            drift = _drift(args, client, scan)
    for output in outputs:
        _write(output, scan, drift, args)
    for kind, why in scan.not_read.items():
        edge.tell(f"note: {kind}: not read: {why}")
    for message in scan.errors:
        edge.tell(f"error: {message}")
    return code(scan, None if args.drift else args.fail_on)


def code(scan: Scan, lowest: Level | None) -> int:
    """The exit code, the same for every format."""
    if scan.errors:
        return 3
    return int(lowest is not None and any(fail_on.covers(lowest, finding.level) for _, finding in scan.findings))


def read(args: argparse.Namespace, client: Client) -> Scan:
    """One reading of the cluster; raises UnusableError (exit 3) if nothing can be read or the namespace is absent."""
    from podfit.cli.support import cluster_policy
    from podfit.cluster.scanning import Scanner, WorkloadSelection

    workload_selection = WorkloadSelection(
        namespace=args.namespace,
        selector=args.selector,
        kinds=args.kinds,
        what_if=partial(_other, args.what_if) if args.what_if else None,
        pods=bool(args.drift or args.metrics or args.serve),
    )
    progress = Progress()
    try:
        with user_cluster.errors_reported("the cluster can't be read"):
            client.get_unreduced("/version")  # first, so that an API server that is away is reported at once
            installed = not args.policy or policies.CLUSTER in args.policy
            in_force = cluster_policy.in_force(client, policies.files(args.policy), with_installed=installed)
            scan = Scanner(client, workload_selection, edge.facts(args), in_force.policy, progress).run()
    finally:
        progress.end()
    unread = {name: f"{why}; {cluster_policy.WITHOUT[name]}" for name, why in in_force.unread.items()}
    scan.not_read = {**unread, **scan.not_read}
    for note in in_force.notes:
        edge.tell(f"note: {note}")
    if args.namespace and not scan.looked_at and _absent(client, args.namespace):
        raise UnusableError(f"namespace {args.namespace!r} does not exist in this cluster", 3)
    if not scan.kinds_read:
        hint = "" if args.namespace else "; with rights in one namespace alone: podfit scan -n NAMESPACE"
        sentence = next(
            (why for kind, why in scan.not_read.items() if "pods" in kind), "no kind of workload was readable"
        )
        raise UnusableError(f"nothing could be read: {sentence}{hint}", 3)
    return scan


def _absent(client: Client, namespace: str) -> bool:
    """True if the API server reports that there is no such namespace; False if reading it is forbidden."""
    from podfit.cluster.access import StatusError

    try:
        client.get(f"/api/v1/namespaces/{namespace}", {})
    except StatusError as error:
        return error.code == 404
    except (OSError, ValueError):
        return False
    return False


def _metrics(path: Path, scan: Scan, seconds: float) -> None:
    """Writes the metrics into a file; raises UnusableError."""
    from podfit.cli.support import exporter

    try:
        exporter.to_file(path, scan, seconds)
    except OSError as error:
        raise UnusableError(f"--metrics {path}: {(error.strerror or 'not writable').lower()}", 3) from error


def _serve(args: argparse.Namespace) -> int:
    """An exporter until SIGTERM or Ctrl-C; 3 if the port is taken, or the cluster can't be reached at first."""
    import signal
    from threading import Event

    from podfit.cli.support import exporter
    from podfit.cluster.events import EventWriter
    from podfit.report.events import events

    stop, writer = Event(), EventWriter()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def once() -> Scan:
        with user_cluster.client(args) as client:  # a new client per scan: credentials may expire between two scans
            scan = read(args, client)
            if args.write_reports:
                write_reports(args, client, scan)
            if args.write_events and (refused := writer.write(client, events(scan, edge.now()))):
                scan.errors.append(f"--write-events: {refused}")
            return scan

    with user_cluster.client(args):
        pass  # a cluster that can't be reached is an error at once
    try:
        exporter.serve(args.serve, args.every * 60, once, stop, writer.counts if args.write_events else None)
    except OSError as error:
        raise UnusableError(f"--serve: {error.strerror or error}", 3) from error
    return 0


def _drift(args: argparse.Namespace, client: Client, scan: Scan) -> list[Drift]:
    """Planned and used memory of each container; raises UnusableError (exit 3) if Prometheus does not answer."""
    from podfit.cluster import logs, prometheus
    from podfit.evaluation.scan import drift

    if not args.prometheus:
        progress = Progress()
        try:
            return drift.compare(scan, logs.used(client, scan, progress), logs.LOGGED)
        finally:
            progress.end()
    token = edge.read_text(args.prometheus_token).strip() if args.prometheus_token else None
    try:
        return drift.compare(scan, prometheus.Prometheus(args.prometheus, token).used(), prometheus.MEASURED_KEYS)
    except prometheus.PrometheusError as error:
        raise UnusableError(f"--prometheus {error}", 3) from error


def write_reports(args: argparse.Namespace, client: Client, scan: Scan) -> None:
    """Writes PolicyReports to the cluster; raises UnusableError (exit 3) if none can be written."""
    from podfit.cluster import reports

    progress, is_full = Progress(), args.selector is None and args.kinds is None
    try:
        with user_cluster.errors_reported("--write-reports"):
            done = reports.write(client, scan, edge.now(), namespace=args.namespace, is_full=is_full, tell=progress)
    finally:
        progress.end()
    if not done.apis:
        known = " nor ".join(api.api_version for api in policy_report.APIS)
        raise UnusableError(f"--write-reports: the cluster has neither {known}; their CRDs are to be installed", 3)
    if done.refused:
        scan.errors.append(f"--write-reports: {done.refused}")
    sentence = f"{denial.many(done.reports, 'report')} written ({', '.join(done.apis)}), {done.removed} stale removed"
    edge.tell(f"note: {sentence}")


class Progress:
    """Shows the progress in one line of the terminal, which is overwritten; nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, sentence: str) -> None:
        """Show a sentence on the progress in place of the one before."""
        if self._is_terminal:
            print(f"\r\x1b[K{FORMS.line(sentence)[:110]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leaves an empty line."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _other(options: list[str], policy: Policy) -> Policy:
    """The policy in force if it enforced, with the changes of `--what-if` over it."""
    from podfit.evaluation.policy import PolicyError, document, what_if

    texts = []
    for option in options:
        rule, sign, mode = option.partition("=")
        if sign and rule in all_rules() and mode in MODES:
            if "admission" not in all_rules()[rule].where:
                edge.tell(
                    f"note: --what-if {option}: {rule} runs only in check and scan; it denies nothing at admission"
                )
            name = f"what-if-{rule}"
            texts.append((f"--what-if {option}", _DOCUMENT.format(name=name, rule=rule, mode=mode)))
        elif policies.path(option).exists():
            texts += policies.texts([option])
        elif sign and rule in all_rules():
            raise UnusableError(f"--what-if {option}: {mode!r} is not a valid mode: {', '.join(MODES)}")
        else:
            raise UnusableError(f"--what-if {option}: neither RULE=MODE with a rule of `podfit explain`, nor a file")
    try:
        return what_if(policy.at(edge.now()), document.read(texts))
    except PolicyError as error:
        raise UnusableError(error.problems) from error


_DOCUMENT = """\
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {{name: {name}}}
spec: {{rules: {{{rule}: {{mode: {mode}}}}}}}
"""


def _write(output: Output, scan: Scan, drift: list[Drift] | None, args: argparse.Namespace) -> None:
    """Write one format of the result; text without a drift goes to the terminal page by page."""
    from podfit.report import drift as drifted
    from podfit.report import scan as scan_report

    rendered: Iterable[str]
    if output.format == "json":
        rendered = scan_report.as_json(scan, None if drift is None else drifted.tree(drift))
    elif output.format == "html":
        from podfit.report import scan_page

        table = None if drift is None else [drifted.COLUMNS, *map(drifted.cells, drift)]
        rendered = scan_page.render(scan, edge.now(), table)
    elif output.format == "policyreport":
        rendered = policy_report.render(scan, edge.now())
    elif drift is not None:
        painted = output.file is None and terminal.colors()
        rendered = drifted.text(drift, args.limit, paint.coloured if painted else paint.plain)
    elif output.file is None:
        terminal.show(scan_report.text(scan, args.limit), paint.highlighted)
        return
    else:
        rendered = scan_report.text(scan, args.limit)
    output.write(rendered)
