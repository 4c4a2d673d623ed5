"""Policy objects in a real cluster: podfit follows them within five seconds, and their status says whether it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import GOOD_POD
from tests.e2e.process import until
from tests.e2e.release import Podfit, fetch_ready
from tests.e2e.user import User
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]
Golden = Callable[[str], None]
UserOf = Callable[[Podfit], User]
Install = Callable[..., Podfit]
PROMPT = 5.0
"""Seconds in which every replica follows."""


def policy(**spec: Any) -> JSONDict:
    return {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "team-chat"}, "spec": spec}


def refused(user: User) -> bool:
    """Whether the Pod that can't start is denied now."""
    probe = doomed(GOOD_POD) | {"metadata": {"name": "probe"}}
    return user.cluster.call("POST", user.path("pods") + "?dryRun=All", probe)[0] == 403


def follows(what: str, *answers: Callable[[], bool]) -> None:
    """Every replica follows within five seconds."""
    begun = time.monotonic()
    for answer in answers:
        until(what, answer)
    assert time.monotonic() - begun < PROMPT


def accepted(user: User) -> str:
    """What the object says: "True", "False", or nothing yet."""
    _, answer = user.cluster.call("GET", "/apis/podfit.dev/v1alpha1/policies/team-chat")
    conditions = answer.get("status", {}).get("conditions", [])
    generation = answer["metadata"]["generation"]
    now = [one for one in conditions if one["observedGeneration"] == generation]
    assert len({one["status"] for one in now}) < 2, "Ready is what Accepted is"
    return "".join(one["status"] for one in now if one["type"] == "Accepted")


def test_replicas_follow_a_policy_that_is_applied_changed_broken_and_deleted(
    install: Install, user_of: UserOf, golden: Golden
) -> None:
    """Without podfit's own webhook, as if it were away: the status of the object says what is wrong."""
    podfit = install(reads=True, change=deaf)
    replica = podfit.beside(podfit)
    user = user_of(podfit)
    rules = {"unpinned-image": {"mode": "deny"}}

    def told(text: str) -> Callable[[], bool]:
        return lambda: all(text in fetch_ready(one) for one in (podfit, replica))

    assert refused(user)
    user.write("policy.yaml", policy(order=10, enforce={"mode": "audit"}, rules=rules))
    user.kubectl("apply -f policy.yaml")
    follows("the policy to hold", lambda: not refused(user), told(" 2 policies"), lambda: accepted(user) == "True")
    user.kubectl("get policies.podfit.dev")

    user.write("policy.yaml", policy(order=10, enforce={"mode": "deny"}, rules=rules))
    user.kubectl("apply -f policy.yaml")
    follows("the change to hold", lambda: refused(user), lambda: accepted(user) == "True")

    broken = policy(order=10, enforce={"mode": "audit"}, rules={"unpinned-imgae": {"mode": "deny"}})
    user.write("policy.yaml", broken)
    user.kubectl("apply -f policy.yaml")
    problem = (
        "the last good state is in use: policies.podfit.dev/team-chat: spec.rules.unpinned-imgae: 'unpinned-imgae'"
    )
    follows("the mistake to be told", told(problem), lambda: accepted(user) == "False")
    assert refused(user), "the last good state is in use"
    fresh = podfit.beside(podfit)
    until("a new replica to hold the last good state", lambda: " 2 policies" in fetch_ready(fresh))
    user.kubectl("get policies.podfit.dev -o wide")

    user.write("policy.yaml", policy(order=10, enforce={"mode": "warn"}, rules=rules))
    user.kubectl("apply -f policy.yaml")
    follows("the mended policy to hold", lambda: not refused(user), lambda: accepted(user) == "True")

    user.kubectl("delete -f policy.yaml")
    follows("the policy to be gone", lambda: refused(user), told(" 1 policy,"))

    golden(re.sub(r"\b\d+s\b", "4s", user.screen))


def deaf(webhook: JSONDict) -> None:
    """Policy objects are not sent."""
    if webhook["name"] == "policies.podfit.dev":
        webhook["rules"][0]["resources"] = ["nothing"]


def test_a_typo_is_refused_where_it_is_typed_and_explained(install: Install, user_of: UserOf, golden: Golden) -> None:
    user = user_of(install(reads=True))
    user.write("typo.yaml", policy(rules={"unpinned-imgae": {"mode": "deny"}}, trustMutaton=True))
    user.write("mode.yaml", policy(rules={"unpinned-image": {"mode": "dney"}}))
    user.write("good.yaml", policy(rules={"unpinned-image": {"mode": "deny"}}))

    user.kubectl("apply -f typo.yaml", exits=1)
    user.kubectl("apply -f mode.yaml", exits=1)
    user.kubectl("apply -f good.yaml --dry-run=server")
    user.kubectl("explain policies.podfit.dev.spec.match")
    user.kubectl("explain policies.podfit.dev.spec.rules.max-model-len-unset")

    golden(user.screen)


def test_with_podfit_away_a_typo_passes_and_is_told_when_it_is_back(install: Install, user_of: UserOf) -> None:
    podfit = install(reads=True)
    user = user_of(podfit)
    user.write("typo.yaml", policy(rules={"unpinned-imgae": {"mode": "deny"}}))
    with podfit.frozen():
        user.kubectl("apply -f typo.yaml")

    until("the mistake to be told", lambda: accepted(user) == "False")

    user.kubectl("delete -f typo.yaml")


def test_a_diff_asks_the_cluster(install: Install, user_of: UserOf, tmp_path: Path) -> None:
    user = user_of(install())
    user.write("bad.yaml", deployment(doomed(GOOD_POD)))
    with user.before_podfit():
        user.kubectl("apply -f bad.yaml")
    (tmp_path / "observe.yaml").write_text(yaml.safe_dump(policy(enforce={"mode": "audit"})))
    command = [sys.executable, "-m", "podfit.cli", "policy", "diff", str(tmp_path / "observe.yaml"), "default"]

    done = subprocess.run(
        [*command, "--cluster"],
        env={**os.environ, "KUBECONFIG": str(user.cluster.kubeconfig())},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    newly = done.stdout.partition("no longer")[0]
    assert f"  Deployment {user.namespace}/llama-8b (cluster): unknown-flag\n    audit → deny, " in newly
