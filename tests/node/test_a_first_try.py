"""docs/try.md on a real node: its script, before podfit is installed for the other tests (`tried` in conftest.py)."""

from __future__ import annotations

from tests.node.admin import Admin, commands


def test_the_first_denial_comes_and_nothing_is_left(admin: Admin, tried: str) -> None:
    assert "deployment.apps/llama-8b-good created" in tried, tried
    assert '"would": "denied"' in tried
    assert "policy.podfit.dev/enforce-chat condition met" in tried
    assert 'admission webhook "workloads.podfit.dev" denied the request' in tried
    assert 'customresourcedefinition.apiextensions.k8s.io "policies.podfit.dev" deleted' in tried
    assert 'namespace "podfit-system" deleted' in tried
    assert "LEFT: \n" in tried


def test_the_script_runs_the_commands_of_the_page(tried: str) -> None:
    page = [
        step.replace("localhost/podfit", "registry.example.com/podfit").replace("tag=try", "tag=0.2.0")
        for step in commands("docs/try.md")
        if not step.startswith(("sh ", "docker ", "kind "))
    ]

    shown = [" ".join(line[2:].split()) for line in tried.splitlines() if line.startswith("$ ")]

    assert shown == [" ".join(step.split()) for step in page]
