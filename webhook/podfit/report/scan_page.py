"""The result of `podfit scan` as one self-contained HTML page, for a ticket or an archive.

Nothing is loaded from anywhere (the page's own policy forbids it), and every word of a cluster is escaped. Without a
script all content is there: the script only sorts and filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from typing import Any

from podfit.base.printable import clean
from podfit.evaluation.denial import HEADINGS, PLANES, many
from podfit.evaluation.scan import (
    DECISION_ORDER,
    NewDenial,
    Ref,
    Scan,
    ScannedContainer,
    ScannedFinding,
    State,
)
from podfit.evaluation.scan.planned import STEADY, USED
from podfit.kube.quantity import human
from podfit.report.scan import scan_headline
from podfit.rules.rule import Heading
from podfit.vllm.memory.ledger import IN_WORDS

_WORDS: dict[State, str] = {
    "denied": "denied",
    "would_deny": HEADINGS["would_deny"],
    "warned": "warnings",
    "clean": "clean",
}
_BADGES: dict[Heading, str] = {"denied": "denied", "would_deny": "denied", "likely": "warned", "advice": "warned"}
"""The class of a heading's badge."""


def render(scan: Scan, now: datetime, drift: Sequence[Sequence[str]] | None = None) -> Iterator[str]:
    """The page, piece by piece; `now` is given in its head, `drift` are rows of a table, the first its head."""
    yield from (_HEAD, f"<header><h1>vLLM workloads</h1><p>{_e(scan_headline(scan))}</p>")
    yield f'<p class="dim">podfit scan, {now:%Y-%m-%d %H:%M} UTC, policy {_e(scan.policy)}</p></header><main>'
    yield from (_cards(scan), _not_whole(scan))
    yield from _table("Rules", ("rule", "mode", "about", "#workloads"), _rules(scan), "rules")
    if scan.what_if is not None:
        yield from _what_if(scan.what_if)
    spaces = ("namespace", "#workloads", *(f"#{_WORDS[state]}" for state in _states(scan)))
    if drift:
        rows = ([_e(cell) for cell in row] for row in drift[1:])
        yield from _table("Planned and used", drift[0], rows, "drift")
    yield from _table("Namespaces", spaces, _spaces(scan), "namespaces")
    if scan.rows:
        yield _TOOLS
    yield from _table("", _COLUMNS, _workloads(scan), "workloads")
    yield from ("</main>", _SCRIPT if scan.rows else "", "</body></html>\n")


def _e(value: object) -> str:
    return escape(clean(str(value)))


def _cards(scan: Scan) -> str:
    """The numbers of all workloads and of each state, as boxes."""
    rows = [
        ("vLLM workloads", scan.workloads(), ""),
        *((_WORDS[state], scan.workloads(state), state) for state in _states(scan)),
    ]
    cells = "".join(f'<div class="card {kind}"><b>{count:,}</b> {name}</div>' for name, count, kind in rows)
    return f'<section class="cards">{cells}</section>'


def _states(scan: Scan) -> list[State]:
    """The states to show: would_deny only if there is any, since most clusters enforce everywhere or nowhere."""
    return [state for state in DECISION_ORDER if state != "would_deny" or scan.workloads(state)]


def _not_whole(scan: Scan) -> str:
    """The kinds that were not read and the errors, folded; empty without any."""
    lines = [f"{kind}: not read: {why}" for kind, why in scan.not_read.items()] + scan.errors
    if not lines:
        return ""
    items = "".join(f"<li>{_e(line)}</li>" for line in lines)
    return f'<details class="note"><summary>{many(len(lines), "note")}: not everything could be seen</summary>' + (
        f"<ul>{items}</ul></details>"
    )


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> Iterator[str]:
    """`#` before a column's name: its cells are numbers. A cell is HTML; one that `_by` made sorts by a value."""
    head = "".join(
        f'<th scope="col"{" class=n" if column.startswith("#") else ""}><button>{_e(column.lstrip("#"))}</button></th>'
        for column in columns
    )
    begun = False
    for row in rows:
        if not begun:
            begun = True
            yield f"<h2>{_e(title)}</h2>" if title else ""
            yield f'<div class="wide"><table id="{name}"><thead><tr>{head}</tr></thead><tbody>\n'
        yield f"<tr>{''.join(_cells(columns, row))}</tr>\n"
    if begun:
        yield "</tbody></table></div>"


def _cells(columns: Sequence[str], cells: Sequence[str]) -> Iterator[str]:
    """The cells of one row; one that `_by` made has the value that it is sorted by."""
    for column, cell in zip(columns, cells, strict=True):
        by, sign, text = cell.partition("\0")
        sort = f' data-by="{_e(by)}"' if sign else ""
        yield f"<td{' class=n' if column.startswith('#') else ''}{sort}>{text if sign else cell}</td>"


def _by(value: object, text: str) -> str:
    return f"{value}\0{text}"


def _badge(kind: str, word: str) -> str:
    return f'<span class="badge {kind}">{word}</span>'


def _rules(scan: Scan) -> Iterator[list[str]]:
    """A row per heading and rule: rule, mode, plane, and the number of workloads."""
    for heading, rule, rows in scan.headings():  # a group has at least one row
        badge = _badge(_BADGES[heading], HEADINGS[heading])
        count = len({row.object for row, _ in rows})
        yield [f"<code>{_e(rule)}</code>", _by(list(HEADINGS).index(heading), badge),
               _e(PLANES[rows[0][1].plane]), str(count)]  # fmt: skip


_TOOLS = (
    '<h2>Workloads</h2><p class="tools"><input id="words" type="search" placeholder="filter: any words" '
    'aria-label="filter"><select id="state" aria-label="state"><option value="">all</option>'
    "<option>denied</option><option>denied if enforced</option><option>warnings</option><option>clean</option>"
    '</select><span id="shown"></span></p>'
)


def _spaces(scan: Scan) -> Iterator[list[str]]:
    for name, count in scan.namespaces():
        yield [_e(name or "(cluster)"), str(sum(count.values())), *(str(count[state]) for state in _states(scan))]


def _what_if(broken: list[NewDenial]) -> Iterator[str]:
    """The heading and the table of workloads that would be denied."""
    count = len({new_denial.object for new_denial in broken})
    yield f"<h2>What if</h2><p>{many(count, 'more workload')} would be denied if applied again.</p>"
    rows = ([_e(denial.object.namespace), _named(denial.object), f"<code>{_e(denial.rule)}</code>", _e(denial.message)]
            for denial in broken)  # fmt: skip
    yield from _table("", ("namespace", "workload", "rule", "why"), rows, "whatif")


def _named(ref: Ref) -> str:
    return f'<span class="dim">{_e(ref.kind)}</span> {_e(ref.name)}'


_COLUMNS = ("state", "namespace", "workload", "container", "model", "GPU", "vLLM", "verdict", "#GPU plan", "#host plan",
            "#replicas", "findings")  # fmt: skip


def _workloads(scan: Scan) -> Iterator[list[str]]:
    """A row per container by decision, namespace and name; the cells of `_COLUMNS`."""
    for row in sorted(scan.rows, key=lambda row: (DECISION_ORDER[row.state], row.object.namespace, row.object.name)):
        findings = [finding for finding in row.findings if finding.is_reported]
        gpu = f"{f'{row.gpus} × ' if row.gpus else ''}{row.gpu}" if row.gpu else "unknown"
        yield [
            _by(DECISION_ORDER[row.state], _badge(row.state, _WORDS[row.state])), _e(row.object.namespace),
            _by(_e(row.object.name), _named(row.object)), _e(row.container), _e(row.model or "unknown"), _e(gpu),
            _e(row.release or "unknown"),
            _by(row.verdict, f'<span title="{_e(row.why)}">{_e(IN_WORDS[row.verdict])}</span>'),
            _size(row, "gpu", USED), _size(row, "host", STEADY), str(row.replicas if row.replicas is not None else ""),
            _by(len(findings), _findings(row, findings)),
        ]  # fmt: skip


def _size(row: ScannedContainer, plane: Any, line: str) -> str:
    span = row.planned.get(plane, {}).get(line)
    return _by(span.likely, human(span.likely)) if span else ""


def _findings(row: ScannedContainer, findings: Sequence[ScannedFinding]) -> str:
    """The number of findings, which unfolds to a list, the most severe first; empty without any."""
    if not findings:
        return ""
    items = "".join(
        f"<li>{_badge(_BADGES[finding.heading], HEADINGS[finding.heading])} <code>{_e(finding.rule)}</code> "
        f'<span class="dim">[{_e(PLANES[finding.plane])}] {_e(finding.path)}</span><br>{_e(finding.message)}'
        + "".join(f'<br><span class="fit">{_e(text)}</span>' for text in finding.suggestions)
        + "</li>"
        for finding in sorted(findings, key=lambda finding: list(HEADINGS).index(finding.heading))
    )
    return f"<details><summary>{len(findings)}</summary><p>{_e(row.why)}</p><ul>{items}</ul></details>"


_HEAD = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>vLLM workloads: podfit scan</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --dim: #59636e; --line: #d4dae0; --soft: #f4f6f8;
  --red: #b3261e; --redback: #fbe9e7; --amber: #7a4d00; --amberback: #fff1d6; --green: #14682f; --greenback: #e3f5e8; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e4e7ea; --dim: #9aa4ae; --line: #343b42;
  --soft: #1e2327; --red: #ff9d94; --redback: #4a1c18; --amber: #ffcf7d; --amberback: #46330d; --green: #8fdfa6;
  --greenback: #143d20; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
header, main { max-width: 100rem; margin: auto; padding: 0 1.5rem; }
header { padding-top: 1.5rem } h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
header p { margin: .25rem 0 } .dim { color: var(--dim) } code { font: .92em ui-monospace, monospace }
.cards { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.25rem 0 }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1.1rem; background: var(--soft) }
.card b { display: block; font-size: 1.6rem; font-weight: 650 }
.denied, .would_deny { color: var(--red) } .warned { color: var(--amber) } .clean { color: var(--green) }
.badge { border-radius: .35rem; padding: .05rem .45rem; font-size: .87em; white-space: nowrap }
.badge.denied, .badge.would_deny { background: var(--redback) } .badge.warned { background: var(--amberback) }
.badge.clean { background: var(--greenback) }
.wide { overflow-x: auto } table { border-collapse: collapse; min-width: 40% }
td, th { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line) }
th button { all: unset; cursor: pointer; font-weight: 600; color: var(--dim); white-space: nowrap }
th button:focus-visible { outline: 2px solid currentColor } th[aria-sort=ascending] button::after { content: " ▲" }
th[aria-sort=descending] button::after { content: " ▼" }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
details ul { margin: .3rem 0; padding-left: 1.1rem; min-width: 26rem } details li { margin: .35rem 0 }
summary { cursor: pointer } .fit::before { content: "→ "; color: var(--dim) }
.tools { display: flex; gap: .6rem; align-items: center; margin: .5rem 0 } .note { color: var(--dim) }
input, select { font: inherit; color: inherit; background: var(--soft); border: 1px solid var(--line);
  border-radius: .35rem; padding: .3rem .6rem } input { width: min(28rem, 100%) }
</style></head><body>"""

_SCRIPT = """\
<script>
for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th").forEach((head, at) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending", body = table.tBodies[0];
    const of = row => { const cell = row.cells[at]; return cell.dataset.by ?? cell.textContent };
    table.querySelectorAll("th").forEach(one => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].sort((a, b) => of(a).localeCompare(of(b), "en", { numeric: true }));
    body.append(...(down ? rows.reverse() : rows));
  }));
}
const words = document.getElementById("words"), state = document.getElementById("state");
const rows = [...(document.getElementById("workloads")?.tBodies[0].rows ?? [])];
const texts = rows.map(row => row.textContent.toLowerCase());
function filter() {
  const wanted = words.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let count = 0;
  rows.forEach((row, at) => {
    const shown = wanted.every(word => texts[at].includes(word)) &&
      (!state.value || row.cells[0].textContent === state.value);
    row.hidden = !shown;
    count += shown;
  });
  document.getElementById("shown").textContent = `${count} of ${rows.length}`;
}
words.addEventListener("input", filter);
state.addEventListener("change", filter);
filter();
</script>"""
