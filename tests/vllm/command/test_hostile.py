"""Text that is made to keep the reader busy: the work is bounded, so is what comes out, and nothing is ever run.

The bound is a count of steps, not a time, so that the tests say the same on every machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import workload
from podfit.rules.rule import Place
from podfit.vllm.command import ALL_WORK, Command, WorkLimit, resolve
from podfit.vllm.command.tree import MAX_SCRIPT_LENGTH, WORK
from podfit.vllm.facts import Facts

LOOPS = "".join(f"for x{i} in 1 2 3 4 5 6 7 8 9; do " for i in range(12))
CALLS = "".join(f"f{i}() {{ if grep a; then f{i + 1}; else f{i + 1}; fi; }}\n" for i in range(60))
FILES = "".join(f"echo x > f{i}\n" for i in range(700))
VARIABLES = "".join(f"A{i}=1\n" for i in range(700))

SCRIPTS = {
    # brackets and quotes that never close, or close too late
    "100 KB of $(": "vllm serve " + "$(" * 50_000,
    "$( that fits": "vllm serve " + "$(" * 400,
    "quotes in substitutions": "vllm serve " + '"$(echo ' * 400 + "x" + ')"' * 400,
    "quotes": "vllm serve " + '"' * 16_000,
    "quotes of both kinds": "vllm serve " + "'\"" * 8_000,
    "backticks": "vllm serve " + "`echo " * 2_000,
    "escaped quotes": "vllm serve " + '\\"' * 8_000,
    "defaults in defaults": "vllm serve " + "${A:-" * 900,
    "parentheses": "(" * 8_000 + "vllm serve m" + ")" * 8_000,
    "groups": "{ " * 400 + "vllm serve m" + "; }" * 400,
    "redirections": "<" * 16_000,
    "operators": "&|;<>(" * 2_500,
    "operators that fit": "&|;<>( " * 140,
    "arrays": "a=( " * 4_000,
    "conditions": "[[ a == [[ " * 1_400,
    "bangs": "! " * 8_000,
    "keywords": "if then else fi do done esac " * 500,
    "blanks to fill in": "<A> " * 4_000,
    "templates": "{{ x }} " * 400 + "vllm serve m",
    "here-documents that never end": "<<A " * 400 + "\nA\n" * 100,
    # text that grows
    "a variable that doubles": "A=aaaaaaaa\n" + "A=$A$A\n" * 200 + "vllm serve $A",
    "words that double": "A='a b c'\n" + 'A="$A $A"\n' * 200 + "vllm serve $A",
    "an array that doubles": "A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + 'vllm serve "${A[@]}"',
    "parameters that double": "set -- a b\n" + 'set -- "$@" "$@"\n' * 200 + 'vllm serve "$@"',
    "a file that doubles": "echo x > a\n" + "cat > a <<E\n$(cat a)$(cat a)\nE\n" * 90 + "vllm serve $(cat a)",
    "a huge array": "A=(" + "a " * 7_000 + ")\n" + "vllm serve ${A[@]}\n" * 20,
    "replacing": "A=" + "a" * 500 + "\n" + "B=${A//a/bbbbbb}\n" * 450 + "vllm serve m",
    "patterns": "A=" + "a" * 500 + "\n" + "B=${A##*a*a*a*a*a*a*b}\n" * 400 + "vllm serve m",
    "one long pattern": "A=" + "a" * 500 + "\nB=${A##" + "*a" * 30 + "b}\nvllm serve m",
    "globs": ("[[ " + "a" * 300 + " == " + "*a" * 30 + "b ]]\n") * 35 + "vllm serve m",
    "brace expansion": "vllm serve " + "{a,b}" * 100 + "{1..1000000}",
    "arithmetic that assigns": "A=1\n" + "((A = A * 9, A++))\n" * 400 + "vllm serve $A",
    "arithmetic": "vllm serve $((9**9**9**9)) $((" + "1+" * 400 + "1))",
    "long words": "vllm serve " + "a" * 16_000,
    "many words": "vllm serve " + "a " * 8_000,
    # ways that multiply
    "nested loops": LOOPS + "echo; " + "done; " * 12 + "vllm serve m",
    "loops over parameters": "set -- "
    + "a " * 60
    + "\nfor x; do for y; do for z; do :; done; done; done\nvllm serve m",
    "branches that call": CALLS + "f0\nvllm serve m",
    "branches in a row": 'if grep a; then A="$A x"; else A="$A y"; fi\n' * 180 + "vllm serve $A",
    "branches with much to copy": VARIABLES + "if grep a; then B=1; fi\n" * 150 + "vllm serve m",
    "cases in a row": "case $X in a) A=$A$A;; b) B=1;; *) C=2;; esac\n" * 120 + "vllm serve $A",
    "nested branches": "if a; then " * 400 + "x; " + "fi; " * 400 + "vllm serve m",
    "a chain of or": "grep a || " * 400 + "vllm serve m",
    "a chain of pipes": "a | " * 900 + "b\nvllm serve m",
    # text that reads itself
    "a function that calls itself": "f() { f; f; }\nf\nvllm serve m",
    "functions that call each other": "f() { g; g; }\ng() { f; f; }\nf\nvllm serve m",
    "a function whose arguments double": 'f() { f "$@" "$@"; }\nf a b\nvllm serve m',
    "eval of eval": "eval " * 3_000 + "vllm serve m",
    "eval of a text that evals itself": 'A=\'eval "$A"; eval "$A"\'\neval "$A"\nvllm serve m',
    "shells in shells": "sh -c " * 2_500 + "'vllm serve m'",
    "a file that runs itself": "cat > a.sh <<'E'\nbash a.sh; bash a.sh\nE\nbash a.sh\nvllm serve m",
    "many files": FILES + "cat nowhere\n" * 50 + "vllm serve m",
    "a variable that names itself": "A=B; B=A; vllm serve " + "${!A}" * 450,
    # bytes that are not text
    "NUL": "vllm serve \0 m",
    "half a surrogate": "vllm serve \ud800" * 500,
    "nothing but newlines": "\n" * 16_000,
}


def container(spec: dict[str, Any], budget: WorkLimit) -> Command | None:
    """How a container starts vLLM, at the cost of `budget`."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [spec]}}
    (found,) = workload.find(pod)
    return resolve(found, found.containers[0], {}, budget)


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_hostile_script_ends_within_bounds(text: str) -> None:
    """It is followed to a limit, and its result fits into the arguments of a process."""
    budget = WorkLimit(ALL_WORK)
    command = container({"name": "vllm", "image": "i", "command": ["sh", "-c", text]}, budget)
    assert budget.spent < 1.5 * WORK
    if command is not None:
        assert sum(len(word.text) for word in command.words) < 1 << 18


def test_all_scripts_of_an_object_cost_no_more_than_a_few() -> None:
    """Two hundred containers cost what two of the worst do."""
    budget = WorkLimit(ALL_WORK)
    for _ in range(200):
        container({"name": "a", "image": "i", "command": ["sh", "-c", SCRIPTS["eval of eval"]]}, budget)
    assert budget.spent < ALL_WORK + 200 * (MAX_SCRIPT_LENGTH)
    last = container({"name": "v", "image": "i", "command": ["sh", "-c", "vllm serve m"]}, budget)
    assert last is not None
    assert last.unread is not None


def test_two_hundred_ordinary_scripts_are_all_read() -> None:
    """The bound is far above real commands."""
    budget = WorkLimit(ALL_WORK)
    text = 'set -euo pipefail\nB="--port 8000"; ulimit -n 65536 || true\nexec vllm serve m $B'
    for _ in range(200):
        command = container({"name": "v", "image": "i", "command": ["sh", "-c", text]}, budget)
        assert command is not None
        assert [word.text for word in command.words] == ["m", "--port", "8000"]


def _doubling(variables: int) -> list[dict[str, str]]:
    return [
        {"name": f"A{i}", "value": "x" if i == variables - 1 else f"$(A{i + 1})" * 10}
        for i in reversed(range(variables))
    ]


ARGS: dict[str, dict[str, Any]] = {
    "a hundred thousand items": {"args": ["m", *["--x"] * 100_000]},
    "as many different flags as are read": {"args": ["m", *[f"--x{n}" for n in range(299)]]},
    "long flags": {"args": ["m", *["--" + "abcdefgh" * 500] * 400]},
    "one long flag": {"args": ["m", "--" + "a" * 1_000_000]},
    "references": {"args": ["m", "$(A)" * 250_000]},
    "references that never close": {"args": ["m", "$(" * 500_000]},
    "placeholders that never close": {"args": ["m", "{{" * 500_000, "<A " * 300_000, ("${" + "a" * 200) * 5_000]},
    "variables that multiply": {"args": ["m", "$(A0)"], "env": _doubling(300)},
    "deep JSON": {"args": ["m", "--hf-overrides", "[" * 60_000, '--kv-transfer-config={"a":' + "1k," * 20_000]},
    "deep keys": {"args": ["m", "--hf-overrides" + ".a" * 5_000, "1"]},
    "a long number": {"args": ["m", "--max-model-len", "9" * 60_000]},
    "a literal": {"image": "vllm/vllm-openai:v0.8.0", "args": ["m", "--compilation-config", "1+" * 30_000 + "1"]},
    "wrappers": {"command": ["env", *["a=b"] * 100_000, "vllm", "serve"]},
}


@pytest.mark.parametrize("spec", ARGS.values(), ids=ARGS.keys())
def test_hostile_arguments_are_read_within_bounds(spec: dict[str, Any]) -> None:
    """Commands far above real ones are not read, and then nothing is reported as missing."""
    served = {"name": "v", "image": "vllm/vllm-openai:v0.27.1", **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [served]}}
    (found,) = workload.find(pod)
    command = resolve(found, found.containers[0])
    if command is not None:
        assert len(command.words) <= 1_000
        assert sum(len(word.text) for word in command.words) < 1 << 18
    report = lint(pod, builtin(), Facts(), where="check")
    assert not report.errors
    assert sum(len(judged.finding.message) for judged in report.findings) < 1 << 18


SERVES = ["vllm", "serve", "m"]
UNREAD: dict[str, dict[str, Any]] = {
    "variables of env, more than items are read": {"command": ["env", *["a=b"] * 600, *SERVES]},
    "variables of env, all of an object": {"command": ["env", *["a=b"] * 100_000, *SERVES]},
    "a string of env": {"command": ["env", "-S", "a=b " * 100_000 + "vllm serve m"]},
    "programs that hand it on": {"command": [*["nohup"] * 70, *SERVES]},
    "programs with options": {"command": [*["env", "a=b"] * 70, *SERVES]},
    "shells in shells": {"command": [*["sh", "-c", 'exec "$@"', "x"] * 70, *SERVES]},
    "a line of one word": {"command": ["env " + "a=b " * 2_000 + "vllm serve m"]},
    "programs in a script": {"command": ["sh", "-c", 'exec "$@"', "x", *["nohup"] * 70, *SERVES]},
    "a script that doubles": {"command": ["sh", "-c", "A=$A$A\n" * 100_000 + "vllm serve m"]},
    "a script with arithmetic": {"command": ["sh", "-c", "A=$((" + "1+" * 100_000 + "1))\nvllm serve m"]},
}


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.27.1", "registry.example/server:1"])
@pytest.mark.parametrize("spec", UNREAD.values(), ids=UNREAD.keys())
def test_words_over_a_bound_are_a_finding(spec: dict[str, Any], image: str) -> None:
    """No amount of words before vLLM hides it; the finding never denies."""
    served = {"name": "v", "image": image, **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [served]}}
    report = lint(pod, builtin(), Facts(), where="check")
    found = {judged.rule: judged.mode for judged in report.findings}
    assert found.get("script-too-complex") == "warn"


@pytest.mark.parametrize("words", [["env", *["a=b"] * 600, "./run"], ["bash", "-c", "echo a\n" * 5_000 + "./run"]])
@pytest.mark.parametrize("where", ["admission", "check"])
def test_words_over_a_bound_that_ask_for_a_gpu_are_that_finding_alone(words: list[str], where: Place) -> None:
    """They may start vLLM or anything else: one warning, no other rule, and no repair."""
    for resources in ({"limits": {"nvidia.com/gpu": "2"}}, {"claims": [{"name": "gpu"}]}):
        served = {"name": "v", "image": "registry.example/a:1", "command": words, "resources": resources}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [served]}}
        report = lint(pod, builtin(), Facts(), where=where)
        assert [(one.rule, one.mode) for one in report.findings] == [("script-too-complex", "warn")]
        assert not report.edits
        other = served | {"image": "lmsysorg/sglang:v0.5"}
        assert container(other, WorkLimit(ALL_WORK)) is None


def test_a_long_line_of_arguments_is_a_finding() -> None:
    """One word of more than is read, which an image's entrypoint may run; Linux passes it to no process."""
    spec = {"name": "v", "image": "registry.example/server:1", "args": ["a=b " * 40_000 + "vllm serve m"]}
    command = container(spec, WorkLimit(ALL_WORK))
    assert command is not None
    assert command.unread is not None


def test_a_program_with_many_words_is_not_taken_for_vllm() -> None:
    """What is over a bound and names vLLM nowhere says nothing of vLLM."""
    for words in (["torchrun", *["--a=b"] * 100, "train.py"], ["env", *["a=b"] * 600, "./run"], ["x", *["y"] * 9_000]):
        spec = {"name": "v", "image": "registry.example/train:1", "command": words}
        assert container(spec, WorkLimit(ALL_WORK)) is None


def test_a_script_goes_on_behind_a_program_with_many_words() -> None:
    """Installing a hundred packages hides nothing."""
    text = "sudo apt-get install -y " + "a " * 100 + "\nvllm serve m"
    command = container({"name": "v", "image": "i", "command": ["sh", "-c", text]}, WorkLimit(ALL_WORK))
    assert command is not None
    assert command.unread is None
    assert [word.text for word in command.words] == ["m"]


def test_many_variables_of_env_are_passed_over() -> None:
    """Each is one word, and the program is behind them."""
    command = container({"name": "v", "image": "i", "command": ["env", *["a=b"] * 300, *SERVES]}, WorkLimit(ALL_WORK))
    assert command is not None
    assert command.unread is None


def test_nothing_is_run(tmp_path: Path) -> None:
    """Not the text in `$( )`, in backticks, in eval, in a sourced file or in a condition."""
    made = tmp_path / "made"
    text = f"""
    $(touch {made}); `touch {made}`; eval 'touch {made}'; if touch {made}; then touch {made}; fi
    cat > s.sh <<'EOF'
touch {made}
EOF
    . ./s.sh; bash s.sh; vllm serve "$(touch {made})" < <(touch {made})
    """
    assert container({"name": "v", "image": "i", "command": ["sh", "-c", text]}, WorkLimit(ALL_WORK)) is not None
    assert not made.exists()
