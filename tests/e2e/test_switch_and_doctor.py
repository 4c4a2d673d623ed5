"""`podfit off`, `podfit on` and `podfit doctor`, as an administrator types them, on a real API server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import yaml

from tests.conftest import GOOD_POD
from tests.e2e.controlplane import HOST, STRANGER, Cluster
from tests.e2e.process import DEADLINE, until
from tests.e2e.release import REGISTRATION, SOURCES, Podfit
from tests.e2e.user import User
from tests.reviews import deployment, doomed

Install = Callable[..., Podfit]
UserOf = Callable[[Podfit], User]
Golden = Callable[[str], None]
KINDS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")


def podfit_(cluster: Cluster, *words: str, exits: int = 0, user: str | None = None) -> str:
    """Runs `podfit WORDS` as an administrator without kubectl; returns what it prints."""
    env = {
        "PATH": "",
        "HOME": str(cluster.root),
        "KUBECONFIG": str(cluster.kubeconfig(user=user)),
        "PYTHONPATH": SOURCES,
    }
    command = [sys.executable, "-m", "podfit.cli", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=4 * DEADLINE)
    assert done.returncode == exits, done.stdout + done.stderr
    return done.stdout + done.stderr


ELSEWHERE = ("fail-open", "other mutators", "policies")
"""What depends on the other tests of a session."""


def shown(podfit: Podfit, text: str) -> str:
    """What is the same in every run."""
    text = re.sub(rf"^.{{6}}(?:{'|'.join(ELSEWHERE)}) .*\n(?: +→ .*\n)?", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\d+ ok, \d+ warnings?", "N ok, N warnings", text, flags=re.MULTILINE)
    text = text.replace(podfit.name, "podfit").replace(str(podfit.port), "PORT")
    text = re.sub(r"facts [0-9a-f]{12}: .*", "facts N", text)
    text = re.sub(r' \(context "podfit", user "\w+", /.*?\)', "", text)
    text = re.sub(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ| \d\d:\d\d UTC)?", "DATE", text)
    return re.sub(r"v1\.\d+\.\S+|of \d+ calls", "N", text)


def test_off_lets_everything_pass_and_on_undoes_it(install: Install, user_of: UserOf, golden: Golden) -> None:
    user = user_of(install({"webhooks": {"failurePolicy": "Fail"}}))
    podfit = user.podfit
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))
    user.kubectl("apply -f llama-8b.yaml", exits=1)
    before = _specs(podfit)

    said = podfit_(podfit.cluster, "off", "--name", podfit.name, "--reason", "a false alarm")
    podfit.gone()
    until("the API server to follow", lambda: _passes(user))
    again = podfit_(podfit.cluster, "off", "--name", podfit.name, "--reason", "")
    later = podfit_(podfit.cluster, "off", "--name", podfit.name, "--reason", "ticket 17")
    said += podfit_(podfit.cluster, "on", "--name", podfit.name)
    until("the API server to follow", lambda: not _passes(user))

    assert "a false alarm" in again
    assert later == again.replace("a false alarm", "ticket 17"), "since when stays"
    assert _specs(podfit) == before
    golden(shown(podfit, said))


def test_off_ends_by_itself_without_podfit_s_rights(install: Install, user_of: UserOf) -> None:
    """With a certificate of a file, podfit may not change its configurations: API servers see that the time is over."""
    podfit = install()
    user = user_of(podfit)
    podfit_(podfit.cluster, "off", "--name", podfit.name, "--for", "2h")
    until("the API server to follow", lambda: _passes(user))

    said = podfit_(podfit.cluster, "off", "--name", podfit.name, "--for", "1s")
    until("the end", lambda: not _passes(user))

    assert "it ends by itself at 20" in said
    doctor = podfit_(podfit.cluster, "doctor", "--name", podfit.name, "--probe-namespace", user.namespace)
    assert "ok    switch          validatingwebhookconfigurations is on: `podfit off --for` ended at 20" in doctor
    assert "and podfit denied it" in doctor
    podfit_(podfit.cluster, "on", "--name", podfit.name)
    assert not _passes(user)


def test_off_survives_an_upgrade(install: Install) -> None:
    """`kubectl apply` and `helm upgrade` merge by the same rules: lists of webhooks and of conditions by name."""
    podfit = install()
    cluster, file = podfit.cluster, podfit.cluster.root / podfit.name / "configurations.yaml"
    file.write_text(yaml.safe_dump_all(podfit.webhooks))
    apply = [cluster.kubectl, "--kubeconfig", str(cluster.kubeconfig()), "apply", "-f", str(file)]
    subprocess.run(apply, check=True, capture_output=True)

    podfit_(cluster, "off", "--name", podfit.name)
    podfit.webhooks[0]["webhooks"][0]["timeoutSeconds"] = 2
    file.write_text(yaml.safe_dump_all(podfit.webhooks))
    subprocess.run(apply, check=True, capture_output=True)

    for kind in KINDS:
        for hook in cluster.call("GET", f"{REGISTRATION}/{kind}/{podfit.name}")[1]["webhooks"]:
            assert "podfit-is-off" in {one["name"] for one in hook["matchConditions"]}


def test_who_has_no_right_is_told_so_and_nothing_changes(podfit: Podfit) -> None:
    before = _specs(podfit)

    said = podfit_(podfit.cluster, "off", "--name", podfit.name, exits=3, user=STRANGER)

    assert 'cannot list resource "validatingwebhookconfigurations"' in said
    assert len(said.splitlines()) == 1
    assert _specs(podfit) == before


def test_a_name_that_is_not_there_is_told(podfit: Podfit) -> None:
    said = podfit_(podfit.cluster, "on", "--name", "nobody", exits=3)

    assert said == "error: there is no webhook configuration named nobody in this cluster\n"


def test_the_doctor_of_a_cluster_without_podfit_says_so(podfit: Podfit) -> None:
    said = podfit_(podfit.cluster, "doctor", "--name", "nobody", exits=1)

    assert "fail  validating  there is none: nothing is checked\n" in said
    assert "→ install the chart" in said


def test_what_the_doctor_may_not_see_is_a_warning(podfit: Podfit) -> None:
    said = podfit_(podfit.cluster, "doctor", "--name", podfit.name, exits=3, user=STRANGER)
    as_json = podfit_(podfit.cluster, "doctor", "--name", podfit.name, "--format=json", exits=3, user=STRANGER)

    assert "warn  validating      can't be seen: 403: " in said
    assert "fail  " not in said
    assert json.loads(as_json)["ok"] is False, "nothing is known"


def test_who_may_only_make_pods_learns_from_the_doctor_whether_podfit_answers(
    install: Install, user_of: UserOf, golden: Golden
) -> None:
    podfit = install()
    user = user_of(podfit)
    cluster, rbac = podfit.cluster, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{user.namespace}"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "patch"]}
    subject = {"kind": "User", "name": STRANGER, "apiGroup": "rbac.authorization.k8s.io"}
    of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"}
    name = {"name": "pods"}
    assert cluster.call("POST", f"{rbac}/roles", {"metadata": name, "rules": [rule]})[0] == 201
    binding = {"metadata": name, "roleRef": of, "subjects": [subject]}
    assert cluster.call("POST", f"{rbac}/rolebindings", binding)[0] == 201
    words = ("doctor", "--name", podfit.name, "--probe-namespace", user.namespace)

    def allowed() -> bool:
        what = {"namespace": user.namespace, "verb": "patch", "resource": "pods", "name": "podfit-doctor"}
        spec = {"user": STRANGER, "resourceAttributes": what}
        answer = cluster.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})[1]
        return bool(answer["status"]["allowed"])

    until("the role to hold", allowed)
    said = podfit_(cluster, *words, user=STRANGER)

    golden(shown(podfit, said))


def test_the_doctor_finds_all_well(install: Install, user_of: UserOf, golden: Golden) -> None:
    podfit = install({"certificates": {"mode": "self"}})
    user = user_of(podfit)

    said = podfit_(podfit.cluster, "doctor", "--name", podfit.name, "--probe-namespace", user.namespace)

    golden(shown(podfit, said))


def test_the_doctor_tells_what_is_broken(install: Install, user_of: UserOf, golden: Golden) -> None:
    podfit = install()
    user = user_of(podfit)
    words = ["doctor", "--name", podfit.name, "--probe-namespace", user.namespace]
    podfit.gone()

    said = podfit_(podfit.cluster, *words, exits=1)
    parsed = json.loads(podfit_(podfit.cluster, *words, "--format=json", exits=1))

    golden(shown(podfit, said))
    assert parsed["ok"] is False
    assert {"certificate", "API server"} == {line["about"] for line in parsed["checks"] if line["state"] == "fail"}
    assert all(line["next"] for line in parsed["checks"] if line["state"] == "fail")


def test_the_doctor_sees_that_the_bundle_does_not_verify_what_is_served(install: Install) -> None:
    podfit, other = install(), podfit_ca(install)
    hooks = podfit.webhooks[0]["webhooks"]
    for hook in hooks:
        hook["clientConfig"]["caBundle"] = other
    podfit.cluster.patch(f"{REGISTRATION}/{KINDS[0]}/{podfit.name}", {"webhooks": hooks})

    said = podfit_(podfit.cluster, "doctor", "--name", podfit.name, exits=1)

    assert f"fail  certificate     {HOST}:{podfit.port}: the caBundle does not verify" in said


def podfit_ca(_: Install) -> str:
    """The caBundle of another CA."""
    import base64
    from datetime import UTC, datetime

    from podfit.server import certs

    return base64.b64encode(certs.issue_ca(datetime.now(UTC)).certificate).decode()


def _specs(podfit: Podfit) -> list[object]:
    return [podfit.cluster.call("GET", f"{REGISTRATION}/{kind}/{podfit.name}")[1]["webhooks"] for kind in KINDS]


def _passes(user: User) -> bool:
    probe = doomed(GOOD_POD) | {"metadata": {"name": "probe"}}
    return user.cluster.call("POST", user.path("pods") + "?dryRun=All", probe)[0] == 201
