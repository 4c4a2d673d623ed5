"""`make oracle`: vLLM's own parser, configuration stage and KV-cache code, and podfit's plan of the same lines.

    python -m oracle --claims [--releases 0.33.0]
    python -m oracle [--releases 0.11.0,0.33.0] [--cases 40] [--seed 1] [--sources DIR] [--report FILE]

Exits with 1 if a difference has no known reason. See docs/oracle.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from oracle import claims, environment, layers
from oracle.cases import BUILT, BUILT_GPUS, GPUS, Case, configs, generate, generate_built, kinds
from oracle.compare import Difference, compare, first_line, report
from podfit.vllm.args.flags import builtin
from podfit.vllm.release import Release, parse
from scripts.facts.table import ROOT

ONE_RELEASE = 1800
"""Seconds for the cases of one release."""


def ask_vllm(cases: Sequence[Case], given: Path | None, release: Release) -> tuple[dict[str, dict[str, Any]], str]:
    """Case → vLLM's answer, and why there are none: not every release of the table has a wheel on every index."""
    try:
        folder = environment.folder(release, given)
    except SystemExit as failed:
        return {}, str(failed)
    models = environment.CACHE / "models"
    lines, paths = [], {}
    for name, config in configs().items():
        (models / name).mkdir(parents=True, exist_ok=True)
        (models / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
        paths[name] = str(models / name)
    for case in cases:
        argv = [_with_paths(word, paths) for word in case.argv(case.model)]
        line: dict[str, Any] = {"id": case.id, "stage": case.stage, "argv": argv, "environment": case.environment}
        if case.probe:
            line["probe"] = case.probe
        if case.stage == "kv":
            layers = None if case.model in BUILT else kinds(configs()[case.model])
            line |= {"kinds": layers, "kv_cache_memory_bytes": case.kv_cache_memory_bytes}
        lines.append(json.dumps(line))
    command = [str(environment.python()), "-m", "oracle.judge", str(folder), str(release)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "webhook"), str(environment.site(release))])
    done = subprocess.run(
        [*command, json.dumps(cases[0].gpu)], input="\n".join(lines), capture_output=True, text=True,
        timeout=ONE_RELEASE, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
    return {one["id"]: one for one in answers if "id" in one}, "" if answers else why


def _with_paths(word: str, paths: Mapping[str, str]) -> str:
    """The word with the folder of each model that it names, for drafters too: nothing is downloaded."""
    return paths.get(word) or reduce(lambda text, name: text.replace(f'"{name}"', f'"{paths[name]}"'), paths, word)


def ask_podfit(cases: Sequence[Case]) -> dict[str, dict[str, Any]]:
    """Case → podfit's plan."""
    known = configs()
    lines = [
        json.dumps({
            "id": case.id, "argv": ["vllm", "serve", *case.argv(case.model)], "vllm_version": case.release,
            "gpu": None if case.stage == "parse" else f"{case.gpu['name']}:8",
            "model_config": None if case.stage == "parse" else known[case.model],
            "kv_cache_memory_bytes": case.kv_cache_memory_bytes,
        })
        for case in cases
    ]  # fmt: skip
    command = [sys.executable, "-m", "podfit.cli", "plan", "--batch", "-"]
    done = subprocess.run(command, cwd=ROOT, input="\n".join(lines), capture_output=True, text=True, check=True)
    return {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}


def run(release: Release, cases: Sequence[Case], given: Path | None) -> tuple[list[Difference], str]:
    """The differences of one release, and a line on how it went."""
    begun = time.monotonic()
    vllm, why = ask_vllm(cases, given, release)
    podfit = ask_podfit(cases)
    differences = []
    own: dict[str, int] = {}
    for case in cases:
        answer = vllm.get(case.id)
        if answer is None or answer.get("own"):
            text = first_line(answer["error"]) if answer else why or "the process ended"
            own[f"{case.stage}: {text[:160]}"] = own.get(f"{case.stage}: {text[:160]}", 0) + 1
            continue
        differences += compare(case, answer, podfit[case.id])
    judged = len(cases) - sum(own.values())
    took = time.monotonic() - begun
    line = f"{release!s:12} {judged:4} of {len(cases)} judged, {len(differences):3} differ, {took:4.0f} s"
    return differences, "\n".join([line, *(f"    not judged, {count} × {text}" for text, count in own.items())])


def _judge_claims(releases: Sequence[Release], given: Path | None) -> int:
    """Prints what vLLM's own code says of each claim that podfit makes about these releases; 1 if one differs."""
    differ = False
    for release in releases:
        made = claims.made(release)
        cases = {case.id: case for claim in made for case in claim.cases(release)}
        answers: dict[str, dict[str, Any]] = {}
        why = ""
        for gpu in dict.fromkeys(claim.gpu for claim in made):
            of_gpu = [case for case in cases.values() if case.gpu["name"] == gpu]
            more, why = ask_vllm(of_gpu, given, release)
            answers |= more
        outcomes = [
            claims.outcome(claim, *(answers.get(case.id, {"own": True, "error": why}) for case in claim.cases(release)))
            for claim in made
        ]
        differ |= any(one.problem and one.judged for one in outcomes)
        print(claims.report(release, outcomes), flush=True)
    return int(differ)


def main(argv: list[str]) -> int:
    """Prints one line per release, then the differences."""
    parser = argparse.ArgumentParser(prog="make oracle", description="vLLM's own code as the judge; see docs/oracle.md")
    parser.add_argument("--releases", metavar="A,B", help="releases of the table (default: all)")
    parser.add_argument("--cases", type=int, default=40, metavar="N", help="cases per release and stage (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="other cases (default: 1)")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="unpacked wheels: DIR/VERSION/vllm; default: PyPI")
    parser.add_argument("--claims", action="store_true", help="judge what podfit's rules say that vLLM rejects")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there too")
    args = parser.parse_args(argv)
    releases = known = sorted(builtin().releases)
    if args.releases:
        wanted = {parse(one) for one in args.releases.split(",")}
        releases = [one for one in releases if one in wanted]
        if len(releases) != len(wanted):
            parser.error(f"--releases: not all of {args.releases} are in the table (podfit releases list)")
    if args.claims:
        return _judge_claims(releases if args.releases else releases[-1:], args.sources)
    every: list[Difference] = []
    for number, release in enumerate(releases):
        gpu = GPUS[(known.index(release) + args.seed) % len(GPUS)]
        batches = [list(generate(release, gpu, args.seed, args.cases))]
        if release >= layers.FIRST:
            batches += [list(generate_built(release, gpu, args.seed)) for gpu in BUILT_GPUS]
        for cases in batches:
            differences, line = run(release, cases, args.sources)
            every += differences
            print(f"[{number + 1}/{len(releases)}] {line}", flush=True)
    text = report(every)
    print(text)
    if args.report:
        args.report.write_text(text + "\n", encoding="utf-8")
    return int(any(one.reason is None for one in every))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
