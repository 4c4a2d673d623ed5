"""Regenerates everything that is generated; `--check` only says what is stale (and exits 1).

- charts/podfit/files/…: the CustomResourceDefinition of Policy objects
- policies/default.yaml: every rule with its default mode, fix and parameters
- policies/schema.json: the JSON Schema of a policy, for editors; also inside the chart's values.schema.json
- docs/schemas/plan.json, docs/memory.md: the lines of the GPU ledger
- docs/rules/<rule>.md: the rule's docstring and its examples with podfit's real output
- docs/rules/README.md: the table of rules
- charts/podfit/monitoring/dashboard.json: the Grafana dashboard
- docs/commands/<command>.md: what each command takes, from its parser; and docs/podfit.1, the man page
- docs/policy-fields.md: every field of a policy, from its schema
- docs/chart-values.md: every value of the chart, from its comments
- docs/{tutorial,…}.md: what the commands of scripts/console.py's pages print
- docs/decisions.md: the table of what lowers a finding's mode
- docs/causes.md: what `podfit diagnose` knows: every cause, the texts that name it, and who prints them
- tests/rules/<rule>/*.out: what `podfit check` prints of each example: the golden output of the tests
- tests/generate/<name>.yaml: what `podfit plan -o NAME` writes of one command line
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from podfit import generate
from podfit.cli.support import edge
from podfit.diagnose.causes import CAUSES
from podfit.evaluation import denial
from podfit.evaluation.lint import lint
from podfit.evaluation.lint.consequence import Doubt
from podfit.evaluation.lint.doubts import DOUBTS, DOUBTS_OF_UPDATE
from podfit.evaluation.lint.steps import STEPS
from podfit.evaluation.policy import Policy, builtin, crd, load, shape
from podfit.kube import manifest
from podfit.kube.companions import Companions
from podfit.report import checked, rule_page, text
from podfit.report.command_line import judged_as
from podfit.rules import all_rules
from podfit.rules.command_line import conflicting_flags
from podfit.rules.rule import Rule
from podfit.vllm.facts import Facts
from podfit.vllm.memory import lines
from scripts import build_dashboard, commands, console, reference, rule_pages

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "tests" / "rules"
SCHEMAS = ROOT / "docs" / "schemas"
PLANNED, GPU, RELEASE = "vllm serve Qwen/Qwen3-14B --max-model-len 16384 --max-num-seqs 16", "l40s", "0.33.0"
"""podfit plan --gpu l40s --vllm-version 0.33.0 -o hpa -- vllm serve …"""


def printed(path: Path) -> str:
    """What `podfit check` prints of one example file, with the note of `--audit` if its rule only audits."""
    containers, notes = evaluated(path)
    return "".join([text.check(checked.Checked((path.name,), containers, (), ()), detail="all"), *notes])


def evaluated(path: Path) -> tuple[tuple[checked.CheckedContainer, ...], list[str]]:
    """The containers of one example file, and the notes on what its rule only audits; raises ValueError if an object
    cannot be evaluated."""
    policy = policy_beside(path)
    read = manifest.read(path.read_bytes(), path.name)
    facts = beside(read)
    judged = [(document, lint(document.object, policy, facts, where="check")) for document in read.documents]
    if wrong := [*read.errors, *(error for _, report in judged for error in report.errors)]:
        raise ValueError(f"{path}: {wrong[0]}")
    containers = tuple(
        checked.container(path.name, document, report, result)
        for document, report in judged
        for result in report.results
    )
    notes = [
        f"\nnote: {line}\n"
        for document, report in judged
        for line in checked.audited(path.name, document, report)
        if f" {path.parent.name}: " in line
    ]
    return containers, notes


def policy_beside(path: Path) -> Policy:
    """The policy of a rule's examples: `policy.yaml` in their folder, for a rule that finds nothing without one."""
    of_rule = path.with_name("policy.yaml")
    return load([(of_rule.name, of_rule.read_text())]) if of_rule.exists() else builtin()


def planned(output: str) -> str:
    """What `podfit plan -o OUTPUT` writes of `PLANNED`."""
    facts = Facts(gpu=edge.accelerator(GPU))
    (result,) = judged_as(PLANNED.split(), RELEASE, facts, builtin()).results
    return generate.render(output, result.engine)


def beside(read: manifest.Manifests) -> Facts:
    """The facts of one example file: its objects know each other, and its labelled ConfigMaps teach models; raises
    ValueError where one can't be read."""
    held = Companions(tuple(document.object for document in read.documents))
    found, errors = edge.with_config_maps(
        Facts(companions=held, config_maps=held.config_maps, plans_table=True), read.documents
    )
    if errors:
        raise ValueError("\n".join(errors))
    return found


def examples(rule_id: str, kind: str) -> list[Path]:
    """The example files of a rule: kind "bad", "good" or "fixed"."""
    return sorted((EXAMPLES / rule_id).glob(f"{kind}*.yaml"))


def default_policy() -> str:
    """The policy that no policy at all means."""
    out = [
        "# The default policy, generated by `make docs`: what podfit does without another policy.",
        "# Copy what you want to change into a file of your own; what it leaves out keeps the value it has here.",
        "apiVersion: podfit.dev/v1alpha1",
        "kind: Policy",
        "metadata:",
        "  name: default",
        "spec:",
        "  enforce:",
        "    mode: deny    # the strongest decision: warn or audit make a trial of all rules together",
        "    ownedPods: warn    # a Pod that a controller made is never denied: its workload was evaluated",
        "  mutate:",
        "    workloads: false    # patch Pods only: GitOps tools compare workloads with their source",
        "  # assume: {}    # nothing: what is unknown stays unknown",
        "  #   gpu: h100    # of a Pod that names none; informs, and denies nothing",
        "  #   nodes: closed    # no node will come that is not there now, so that live nodes may deny",
        "  #   downloadBandwidth: 500M    # bytes a second at which weights come from a hub; unknown: 0.1 … 2 GB",
        "  trustMutation: false    # deny a workload even where a patch of its Pods would repair it",
        "  allowIgnore: []    # rules that an author may silence by an annotation podfit.dev/ignore.RULE",
        "  rules:",
    ]
    for rule_id, rule in all_rules().items():
        out += [f"    # {rule.title()}", f"    {rule_id}:", f"      mode: {rule.mode}"]
        if rule_page.has_fix(rule):
            out.append(f"      fix: {str(rule.fix).lower()}")
        out += rule_page.parameter_lines(rule, " " * 6)
    return "\n".join(out) + "\n"


def rule_table() -> str:
    """docs/rules/README.md."""
    rules = all_rules()
    denying = sum(rule.mode == "deny" for rule in rules.values())
    out = [
        "# Rules",
        "",
        f"{len(rules)} rules, by what they protect. {denying} of them deny by default, and only if the finding is",
        "certain: [What podfit denies](../decisions.md). The others warn or audit. A [policy](../policies.md) changes",
        "each mode.",
        "",
        "The event is what happens if the finding is right. The level is the highest that a finding of the rule can",
        "have by default: `denied`, `likely` (the event is more probable than not) or `advice`.",
    ]
    for plane, title in denial.PLANES.items():
        out += [
            "",
            f"## {title[0].upper()}{title[1:]}",
            "",
            "| rule | mode | level | problem | event |",
            "| --- | --- | --- | --- | --- |",
        ]
        for rule_id, rule in rules.items():
            if rule.plane == plane:
                level = f"`{rule.mode}` | {rule.highest_level()}"
                out.append(f"| [{rule_id}]({rule_id}.md) | {level} | {rule.title()} | {rule.event} |")
    return "\n".join(out) + "\n"


def configuration_checks() -> str:
    """docs/configuration-checks.md."""
    out = [
        "# What conflicting-flags checks",
        "",
        "vLLM rejects these combinations while it builds its configuration. The rule",
        "[conflicting-flags](rules/conflicting-flags.md) checks each in the releases that have the check.",
        "",
        "| argument | vLLM releases | rejected |",
        "| --- | --- | --- |",
    ]
    rows: list[tuple[str, str, Any]] = [
        (dest, f"from {first}" if first else "every", find)
        for dests, first, find in conflicting_flags.OTHER_CHECKS
        for dest in dests
    ]
    for check in conflicting_flags.CHECKS:
        releases = f"from {check.first}" if check.before is None else f"{check.first} until before {check.before}"
        rows.append((check.dest, releases, check.refusal))
    for dest, releases, function in sorted(rows, key=lambda row: row[0]):
        summary = " ".join((function.__doc__ or "").split("\n\n")[0].split())
        problem = summary.partition(" None ")[0].replace("|", "\\|")  # the next sentence says when a check passes
        out.append(f"| `--{dest.replace('_', '-')}` | {releases} | {problem} |")
    return "\n".join(out) + "\n"


def decisions() -> str:
    """docs/decisions.md, with the table of the doubts."""
    rows = [
        *((doubt.name, doubt.when, _effect(doubt)) for doubt in DOUBTS),
        *((step.name, step.when, step.effect) for step in STEPS),
        *((doubt.name, doubt.when, _effect(doubt)) for doubt in DOUBTS_OF_UPDATE),
    ]
    table = ["| doubt | if | then |", "| --- | --- | --- |"]
    table += [f"| `{name}` | {when} | {effect} |" for name, when, effect in rows]
    return _with_block("decisions.md", "the doubts", table)


MODE_EFFECTS = {"deny": "denied", "warn": "a warning", "audit": "audited", "ignore": "not reported"}


def _effect(doubt: Doubt) -> str:
    """The limits of a doubt, for people."""
    level = f", at most {doubt.level_at_most}" if doubt.level_at_most != "denied" else ""
    return f"{MODE_EFFECTS[doubt.mode_at_most]}{level}{', not repaired' if doubt.stops_repair else ''}"


def causes() -> str:
    """docs/causes.md."""
    out = [
        "# Causes",
        "",
        "What `podfit diagnose` recognizes in logs, Events and status. A text is a regular expression. A *symptom* "
        "counts only if nothing else explains the failure. Releases are vLLM's.",
    ]
    for cause in CAUSES.values():
        rules = [f"[{rule}](rules/{rule}.md)" for rule in cause.rules if rule in all_rules()]
        out += [
            "",
            f"## {cause.id}",
            "",
            f"{cause.title} ({denial.PLANES[cause.plane or 'config']}). {cause.remedy}",
            "",
        ]
        if cause.meanings:
            out += [*(f"- {meaning}" for _, meaning in cause.meanings), ""]
        if rules:
            out += [f"Rules that find it in a manifest: {', '.join(rules)}.", ""]
        out += ["| text | where | printed by | releases |", "| --- | --- | --- | --- |"]
        for one in cause.signatures:
            pattern = one.pattern.replace("|", "\\|").replace("`", "'")
            where = f"{one.channel}{', symptom' if one.weak else ''}"
            out.append(f"| `{pattern}` | {where} | {one.source.replace('|', '/')} | {one.releases} |")
    return "\n".join(out) + "\n"


def rule_markdown(rule: type[Rule]) -> str:
    """docs/rules/<rule>.md."""
    policy = EXAMPLES / rule.id() / "policy.yaml"
    shown = [("The policy of the examples", f"```yaml\n{policy.read_text().strip()}\n```")] if policy.exists() else []
    shown += [rule_pages.example(path, *evaluated(path)) for path in examples(rule.id(), "bad")]
    fixed = [(path.with_name(path.name.replace("fixed", "bad", 1)), path) for path in examples(rule.id(), "fixed")]
    shown += [rule_pages.fix(before, after) for before, after in fixed]
    return rule_page.markdown(rule, shown)


def custom_resource() -> str:
    """The CustomResourceDefinition, also for `kubectl apply -f`."""
    return "# Generated by `make docs`.\n" + yaml.safe_dump(crd.definition(), sort_keys=False, width=120)


def chart_schema() -> str:
    """The chart's values schema with the policy's own in it."""
    path = ROOT / "charts" / "podfit" / "values.schema.json"
    values = json.loads(path.read_text())
    policy = shape.schema()
    values["$defs"] = policy.pop("$defs")
    values["properties"]["policy"] = policy
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def plan_schema() -> str:
    """docs/schemas/plan.json with the lines of the GPU ledger."""
    schema = json.loads((SCHEMAS / "plan.json").read_text())
    _, ledger = schema["$defs"]["plan"]["properties"]["gpu"]["anyOf"]
    amount = {"$ref": "#/$defs/line"}
    others = {name: field for name, field in ledger["properties"].items() if field != amount}
    ledger["properties"] = {**dict.fromkeys(lines.AMOUNTS, amount), **others}
    ledger["required"] = list(ledger["properties"])
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def memory() -> str:
    """docs/memory.md, with the lines of the GPU ledger and their modules."""
    rows = [
        ("  total", "what CUDA reports to a process, less than the product's name says", "budget.py"),
        ("× utilization", "--gpu-memory-utilization: 0.9; from 0.20 0.92", "budget.py"),
        ("= budget", "", ""),
        *((f"− {line.title}", line.about, f"{line.id}.py") for line in lines.LINES),
        (f"= {lines.KV_CACHE_TITLE}", "blocks, tokens, concurrency", "kv_cache.py"),
    ]
    texts = [f"{name:<20}{about:<74}{module}".rstrip() for name, about, module in rows]
    return _with_block("memory.md", "the lines", ["```", *texts, "```"])


def _with_block(page: str, name: str, rows: Iterable[str]) -> str:
    """A page of docs/ with the rows between its comments about the block."""
    begin, end = f"<!-- {name}, generated by make docs -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = (ROOT / "docs" / page).read_text().partition(begin)
    return before + begin + "".join(f"{row}\n" for row in rows) + end + rest.partition(end)[2]


def generated() -> Iterator[tuple[Path, str]]:
    """Every generated file and its expected content."""
    yield ROOT / "policies" / "schema.json", json.dumps(shape.schema(), indent=2, ensure_ascii=False) + "\n"
    yield ROOT / "charts" / "podfit" / "values.schema.json", chart_schema()
    yield SCHEMAS / "plan.json", plan_schema()
    yield ROOT / "docs" / "memory.md", memory()
    yield ROOT / "charts" / "podfit" / "monitoring" / "dashboard.json", build_dashboard.text()
    yield ROOT / "charts" / "podfit" / "files" / "policies.podfit.dev.yaml", custom_resource()
    yield ROOT / "policies" / "default.yaml", default_policy()
    yield ROOT / "docs" / "rules" / "README.md", rule_table()
    yield ROOT / "docs" / "causes.md", causes()
    yield ROOT / "docs" / "decisions.md", decisions()
    yield ROOT / "docs" / "configuration-checks.md", configuration_checks()
    yield ROOT / "docs" / "policy-fields.md", reference.policy_fields()
    yield ROOT / "docs" / "chart-values.md", reference.chart_values()
    for path in console.PAGES:
        yield path, console.rendered(path.read_text())
    yield ROOT / "docs" / "podfit.1", commands.manual()
    yield ROOT / "docs" / "commands" / "README.md", commands.index()
    for command in commands.commands():
        yield ROOT / "docs" / "commands" / f"{command.name.split()[1]}.md", commands.page(command)
    for rule_id, rule in all_rules().items():
        yield ROOT / "docs" / "rules" / f"{rule_id}.md", rule_markdown(rule)
        for path in examples(rule_id, "bad"):
            yield path.with_suffix(".out"), printed(path)
    for output in ("hpa", "keda"):
        yield ROOT / "tests" / "generate" / f"{output}.yaml", planned(output)


def main() -> int:
    """Writes what is stale, or names it."""
    check = "--check" in sys.argv[1:]
    wanted = dict(generated())
    stale = [path for path, text_ in wanted.items() if not path.exists() or path.read_text() != text_]
    folders = (ROOT / "docs" / "rules", ROOT / "docs" / "commands")
    left_over = [path for folder in folders for path in folder.glob("*.md") if path not in wanted]
    for path in stale:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
    for path in left_over:
        if not check:
            path.unlink()
    for path in (*stale, *left_over):
        print(f"{'stale' if check else 'wrote'} {path.relative_to(ROOT)}")
    if check and (stale or left_over):
        print("run `make docs`")
    return int(check and bool(stale or left_over))


if __name__ == "__main__":
    sys.exit(main())
