"""The installation guide, as it is typed; and every example of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from podfit.cli import main
from tests.e2e.manifests import EXAMPLES
from tests.e2e.process import until
from tests.e2e.release import OWN
from tests.node.admin import Admin, commands, guide


def test_installed_by_the_guide_it_is_ready_and_denies(podfit: Admin) -> None:
    assert podfit.two_ready()

    shown = podfit.types("kubectl apply -f examples/llama-70b-with-32gi.yaml", exits=1)

    assert 'admission webhook "workloads.podfit.dev" denied the request' in shown


def test_its_pods_have_the_charts_limits_and_may_write_nothing(podfit: Admin) -> None:
    name = podfit.pods()[0]["metadata"]["name"]

    told = podfit.types(
        f"kubectl -n {OWN} exec {name} -- sh -c 'exec 2>&1; id -u; touch /opt/podfit/x /tmp/x'", exits=1
    )

    assert told.splitlines()[0] == "65532"
    assert told.count("Read-only file system") == 2


def test_helm_test(podfit: Admin) -> None:
    podfit.node.resolves("podfit", OWN)

    told = podfit.types(f"helm test podfit --namespace {OWN}")

    assert re.search(r"TEST SUITE: +podfit-test\n(.*\n){2}Phase: +Succeeded", told)


def test_the_guides_doctor_finds_nothing_that_fails(podfit: Admin) -> None:
    told = podfit.types(guide("podfit doctor"))

    assert "fail " not in told


def test_the_guides_off_and_on(podfit: Admin) -> None:
    operations = [step for step in commands("docs/operations.md") if step.startswith("podfit")]
    assert [step.split()[1] for step in operations] == ["off", "on"]

    for off, on in ((guide("podfit off"), "podfit on"), operations):
        podfit.types(off)
        until("podfit to be off", lambda: not podfit.denies())
        podfit.types(on)
        until("podfit to be on", podfit.denies)


def test_the_commands_of_the_roll_out(podfit: Admin) -> None:
    """From observe to strict and back, of a release that enforces; tests/e2e walks the whole page."""
    left_out = re.compile(r"audit\.log|^jq|^helm|^podfit doctor|chat\.yaml")
    steps = [step for step in commands("docs/rollout.md") if not left_out.search(step)]
    assert [step.split("#")[0].strip() for step in steps] == [
        "podfit policy test policies/tests",
        "podfit policy diff default policies/strict.yaml --cluster",
        "kubectl apply -f policies/strict.yaml",
        "kubectl apply -f policies/observe.yaml",
        """kubectl patch policies.podfit.dev observe --type merge --patch '{"spec": {"order": 1000}}'""",
        "kubectl delete -f policies/observe.yaml",
    ]
    *strict, observe, last, restore = steps

    for step in strict:
        podfit.types(step)
    podfit.types(observe)
    podfit.types(last)
    until("nothing to be denied", lambda: not podfit.denies())
    podfit.types(restore)

    until("doomed Pods to be denied", podfit.denies)
    podfit.types("kubectl delete -f policies/strict.yaml")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_kubectl_is_told_what_check_tells(path: Path, podfit: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    denied = main(["check", str(path)]) == 1

    shown = podfit.types(f"kubectl apply --dry-run=server -f {path}", exits=int(denied))

    assert ("denied the request" in shown) is denied
