"""What `kubectl apply` shows of a bad object, and what it leaves behind: nothing."""

from __future__ import annotations

from collections.abc import Callable

from tests.conftest import GOOD_POD
from tests.e2e.manifests import example, named
from tests.e2e.release import Podfit
from tests.e2e.user import User
from tests.reviews import deployment, doomed

Golden = Callable[[str], None]
UserOf = Callable[[Podfit], User]


def test_a_bad_deployment_is_refused_with_the_arithmetic_and_what_would_fit(user: User, golden: Golden) -> None:
    user.write("llama-8b-on-a-t4.yaml", example("llama-8b-on-a-t4.yaml"))

    user.kubectl("apply -f llama-8b-on-a-t4.yaml", exits=1)

    golden(user.screen)
    assert user.stored("apps/deployments", "llama-8b") is None


def test_warnings_are_shown_and_the_deployment_is_made(user: User, golden: Golden) -> None:
    warned = deployment(GOOD_POD)
    container = warned["spec"]["template"]["spec"]["containers"][0]
    del container["startupProbe"]
    del container["resources"]["limits"]["memory"]
    user.write("llama-8b.yaml", warned)

    user.kubectl("apply -f llama-8b.yaml")

    golden(user.screen)
    assert user.stored("apps/deployments", "llama-8b")


def test_of_two_objects_in_a_file_the_good_one_is_made_and_the_bad_one_refused(user: User, golden: Golden) -> None:
    user.write("both.yaml", named(doomed(GOOD_POD), "bad"), named(GOOD_POD, "good"))

    user.kubectl("apply -f both.yaml", exits=1)

    golden(user.screen)
    assert [pod["metadata"]["name"] for pod in user.listed("pods")] == ["good"]


def test_server_side_apply_is_refused_with_the_same_message(user: User, golden: Golden) -> None:
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))

    user.kubectl("apply --server-side -f llama-8b.yaml", exits=1)

    golden(user.screen)


def test_server_side_apply_of_a_good_object_is_served_twice_without_a_conflict(user: User, golden: Golden) -> None:
    user.write("llama-8b.yaml", deployment(GOOD_POD))

    user.kubectl("apply --server-side -f llama-8b.yaml")
    user.kubectl("apply --server-side -f llama-8b.yaml")

    golden(user.screen)


def test_a_dry_run_on_the_server_is_judged_and_leaves_nothing(podfit: Podfit, user: User, golden: Golden) -> None:
    user.write("good.yaml", named(deployment(GOOD_POD), "good"))
    user.write("bad.yaml", named(deployment(doomed(GOOD_POD)), "bad"))
    before = podfit.reviews(kind="Deployment", dry_run="true")

    user.kubectl("apply --dry-run=server -f good.yaml")
    user.kubectl("apply --dry-run=server -f bad.yaml", exits=1)

    golden(user.screen)
    assert podfit.reviews(kind="Deployment", dry_run="true") == before + 2
    assert user.listed("apps/deployments") == []


def test_a_diff_of_a_bad_object_shows_the_refusal(user: User, golden: Golden) -> None:
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))

    user.kubectl("diff -f llama-8b.yaml", exits=2)

    golden(user.screen)
    assert user.listed("apps/deployments") == []


def test_an_update_that_introduces_a_fault_is_refused_and_the_old_object_stays(user: User, golden: Golden) -> None:
    user.write("llama-8b.yaml", deployment(GOOD_POD))
    user.kubectl("apply -f llama-8b.yaml")
    before = user.stored("apps/deployments", "llama-8b")
    assert before
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))

    user.kubectl("apply -f llama-8b.yaml", exits=1)

    golden(user.screen)
    after = user.stored("apps/deployments", "llama-8b")
    assert after
    assert after["spec"] == before["spec"]


def test_programs_get_the_status_with_a_cause_a_finding(user: User) -> None:
    bad = doomed(GOOD_POD)
    bad["spec"]["containers"][0]["args"].append("--another-such-flag")
    bad["metadata"]["namespace"] = user.namespace

    status, answer = user.cluster.call("POST", user.path("pods"), bad)

    assert (status, answer["reason"], answer["status"]) == (403, "Forbidden", "Failure")
    assert [(cause["reason"], cause["field"]) for cause in answer["details"]["causes"]] == [
        ("unknown-flag", "spec.containers[0].args[4]"),
        ("unknown-flag", "spec.containers[0].args[5]"),
    ]
    assert "--no-such-flag" in answer["details"]["causes"][0]["message"]


def test_the_audit_log_says_what_was_decided_by_which_rule_under_which_policy(user: User) -> None:
    user.write("good.yaml", named(deployment(GOOD_POD), "good"))
    user.write("bad.yaml", named(deployment(doomed(GOOD_POD)), "bad"))
    user.kubectl("apply -f good.yaml")
    user.kubectl("apply -f bad.yaml", exits=1)

    notes = {
        event["objectRef"]["name"]: {
            key.removeprefix("workloads.podfit.dev/"): value
            for key, value in event["annotations"].items()
            if key.startswith("workloads.podfit.dev/")
        }
        for event in user.cluster.audited(user.namespace)
        if event["objectRef"]["resource"] == "deployments" and event["verb"] == "create"
    }

    assert notes["good"]["decision"] == "allowed"
    assert (notes["bad"]["decision"], notes["bad"]["rules"]) == ("denied", "unknown-flag=deny")
    assert notes["bad"]["policy-version"] == notes["good"]["policy-version"]


def test_what_the_chart_says_of_the_policy_is_what_holds(
    install: Callable[..., Podfit], user_of: UserOf, golden: Golden
) -> None:
    user = user_of(install({"policy": {"spec": {"rules": {"startup-probe-missing": {"mode": "deny"}}}}}))
    bad = deployment(GOOD_POD)
    del bad["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    user.write("llama-8b.yaml", bad)

    user.kubectl("apply -f llama-8b.yaml", exits=1)

    golden(user.screen)
