"""Policies that change while the server runs: what is good holds at once, what is broken changes nothing."""

from __future__ import annotations

import json
import logging
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from podfit.base import data
from podfit.evaluation.policy import PolicyError, Subject, builtin
from podfit.server.app import create_app
from podfit.server.live import Live
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests.asgi import Client
from tests.conftest import GOOD_POD
from tests.evaluation.policy.test_broken import BROKEN, EVERYTHING
from tests.reviews import admission_review, doomed

JSONDict = dict[str, Any]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POD = Subject("Pod", "", "chat", {})


def text(mode: str, name: str = "mine") -> str:
    head = f"apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {{name: {name}}}\n"
    return f"{head}spec:\n  rules:\n    unpinned-image:\n      mode: {mode}\n"


def mode(live: Live) -> str:
    return live.policy.of(POD).mode("unpinned-image")


class ConfigMap:
    """A mounted one: the kubelet writes a new folder and swaps a symlink to it."""

    def __init__(self, folder: Path, data: dict[str, str]) -> None:
        self.folder = folder
        self._count = 0
        self.write(data)

    def write(self, data: dict[str, str]) -> None:
        self._count += 1
        real = self.folder / f"..2026_{self._count}"
        real.mkdir(parents=True)
        for name, content in data.items():
            (real / name).write_text(content)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data") / name)
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(real.name)
        fresh.replace(self.folder / "..data")
        for link in self.folder.iterdir():
            if link.name[0] != "." and link.name not in data:
                link.unlink()


def test_a_changed_file_holds_after_the_next_look(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text("deny"))
    live = Live([file])
    assert mode(live) == "deny"

    file.write_text(text("audit"))
    live.look()

    assert mode(live) == "audit"
    assert live.problems == ()


def test_a_mounted_config_map_changes_by_the_swap_of_a_symlink_even_with_equal_times(tmp_path: Path) -> None:
    mounted = ConfigMap(tmp_path / "policy", {"policy.yaml": text("deny")})
    live = Live([mounted.folder / "policy.yaml"])
    stamp = (mounted.folder / "policy.yaml").stat()

    mounted.write({"policy.yaml": text("warn")})
    os.utime(mounted.folder / "policy.yaml", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    live.look()

    assert mode(live) == "warn"


def test_a_folder_holds_what_is_in_it_now(tmp_path: Path) -> None:
    mounted = ConfigMap(tmp_path / "policy", {"a.yaml": text("deny", "a")})
    live = Live([mounted.folder])
    assert [layer.name for layer in live.policy.everything] == ["a"]

    mounted.write({"a.yaml": text("deny", "a"), "b.yaml": text("ignore", "b")})
    live.look()
    assert [layer.name for layer in live.policy.everything] == ["a", "b"]
    assert mode(live) == "ignore"

    mounted.write({"a.yaml": text("deny", "a")})
    live.look()
    assert mode(live) == "deny"


def test_a_schema_that_is_mounted_beside_the_policies_is_none(tmp_path: Path) -> None:
    schema = (Path(__file__).parents[2] / "policies" / "schema.json").read_text()
    mounted = ConfigMap(tmp_path / "policy", {"a.yaml": text("deny", "a"), "schema.json": schema})
    live = Live([mounted.folder])

    assert [layer.name for layer in live.policy.everything] == ["a"]
    assert live.problems == ()
    with pytest.raises(ValueError, match=r"expected apiVersion podfit\.dev"):
        Live([mounted.folder / "schema.json"])


def test_a_server_does_not_start_with_a_broken_policy(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text("dney"))

    with pytest.raises(PolicyError, match=r"p\.yaml:7: spec\.rules\.unpinned-image\.mode"):
        Live([tmp_path / "p.yaml"])


def test_a_broken_change_keeps_the_last_good_state_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, other = tmp_path / "policy.yaml", tmp_path / "other.yaml"
    file.write_text(text("deny"))
    other.write_text(text("deny", "other").replace("unpinned-image", "unknown-gpu"))
    live = Live([file, other], clock=lambda: NOW)
    metrics = Metrics("1", live.policy.version, "f")
    metrics.watch_policy(live)
    client = Client(create_app(live, Facts(), metrics))
    good = live.policy.version
    caplog.set_level(logging.INFO)

    file.write_text(text("dney"))
    other.write_text(text("audit", "other").replace("unpinned-image", "unknown-gpu"))
    live.look()
    live.look()

    assert mode(live) == "deny"
    assert live.policy.of(POD).settings["unknown-gpu"].mode == "audit", "the other file is none the worse for it"
    problem = f"{file}:7: spec.rules.unpinned-image.mode: input should be"
    assert sum(problem in record.getMessage() for record in caplog.records) == 1
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert f"policy: the last good state is in use: {problem}" in ready.text
    assert "podfit_policy_up_to_date 0.0" in client.get("/metrics").text
    assert live.policy.version != good
    assert f'policy_version="{live.policy.version}"' in client.get("/metrics").text

    file.write_text(text("warn"))
    live.look()

    assert mode(live) == "warn"
    assert (
        client.get("/readyz").text
        == f"ok\npolicy {live.policy.version}: 2 policies, since 2026-11-21T12:00:00Z\n{data.age()}\n"
    )
    assert "podfit_policy_up_to_date 1.0" in client.get("/metrics").text


def test_a_file_that_is_gone_or_unreadable_keeps_its_last_state(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text("deny"))
    live = Live([file])

    file.unlink()
    live.look()
    assert (mode(live), live.problems) == ("deny", (f"{file}:1: policy: can't be read",))
    file.write_bytes(b"\xff\xfe")
    live.look()
    assert (mode(live), live.problems) == ("deny", (f"{file}:1: policy: can't be read",))


def test_none_of_the_broken_policies_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(EVERYTHING)
    live = Live([file])
    good = live.policy.version

    broken_ones = BROKEN[::3]
    assert len(broken_ones) > 200
    for what, _, broken in broken_ones:
        file.write_text(broken)
        live.look()
        assert live.policy.version == good, what
        assert live.problems, what


def test_policies_that_do_not_go_together_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text("deny"))
    live = Live([file])

    file.write_text(text("warn") + "  releases:\n    known:\n      0.99.0:\n        removed: [--no-such-flag]\n")
    live.look()

    assert mode(live) == "deny"
    assert live.problems == (
        f"{file}:11: spec.releases.known[0.99.0].removed[0]: '--no-such-flag' can't be removed: "
        "0.33.0 does not know it",
    )


def test_an_object_of_the_cluster_comes_changes_breaks_and_goes() -> None:
    objects: dict[str, JSONDict] = {}
    live = Live([], lambda: objects)

    def apply(said: str) -> None:
        spec = {"rules": {"unpinned-image": {"mode": said}}}
        objects["mine"] = {
            "apiVersion": "podfit.dev/v1alpha1",
            "kind": "Policy",
            "metadata": {"name": "mine"},
            "spec": spec,
        }
        live.look()

    assert mode(live) == "warn"
    apply("deny")
    assert mode(live) == "deny"
    assert live.object_problems() == {"mine": ()}
    apply("dney")
    assert mode(live) == "deny"
    assert live.object_problems()["mine"][0].startswith(
        "policies.podfit.dev/mine: spec.rules.unpinned-image.mode: input should be"
    )
    objects["mine"]["status"] = {"accepted": json.dumps({"rules": {"unpinned-image": {"mode": "ignore"}}})}
    assert mode(Live([], lambda: objects)) == "ignore", "a server that starts now has it from the status"
    objects.clear()
    live.look()
    assert mode(live) == "warn"
    assert live.problems == ()


OBSERVE = {
    "apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "observe"},
    "spec": {"enforce": {"mode": "audit"}},
}  # fmt: skip


def test_without_the_kind_of_policy_objects_nothing_is_enforced(caplog: pytest.LogCaptureFixture) -> None:
    """Of a cluster that observes, the loss of the CRD takes the objects first, one by one, and then the kind."""
    objects: dict[str, JSONDict] | None = {"observe": OBSERVE}
    served = True
    live = Live([], lambda: objects, served=lambda: served)
    metrics = Metrics("1", live.policy.version, "f")
    metrics.watch_policy(live)
    client = Client(create_app(live, Facts(), metrics))
    observed = live.policy.of(POD).settings

    objects, served = None, False
    stop = Looks(2)
    live.run(stop)

    limited = live.policy.of(POD)
    assert {limited.mode(rule) for rule in limited.settings} <= {"audit", "ignore"}
    assert {rule: one.fix for rule, one in live.policy.of(POD).settings.items()} == {
        rule: one.fix for rule, one in observed.items()
    }
    why = "nothing is enforced: the API server does not serve policies.podfit.dev"
    assert f"policy: {why}" in client.get("/readyz").text
    assert client.get("/readyz").status_code == 200
    assert "podfit_policy_objects_unknown 1.0" in client.get("/metrics").text
    assert "podfit_policy_up_to_date 0.0" in client.get("/metrics").text
    assert sum(why in record.getMessage() for record in caplog.records) == 1

    objects, served = {}, True
    live.look()

    assert live.policy.of(POD).mode("unknown-flag") == "deny", "a CRD without objects: the files count"
    assert "podfit_policy_objects_unknown 0.0" in client.get("/metrics").text


class Looks(threading.Event):
    """Lets `Live.run` look so many times."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._left = number

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0


def test_policy_objects_that_were_never_read_may_be_softer_than_the_files(tmp_path: Path) -> None:
    """A right that is missing when a server starts; one that is taken later keeps the last good state."""
    file = tmp_path / "policy.yaml"
    file.write_text(text("deny"))
    objects: dict[str, JSONDict] | None = None
    live = Live([file], lambda: objects)
    assert (mode(live), live.unknown) == ("audit", "the Policy objects of the cluster have not been read")

    objects = {}
    live.look()
    assert (mode(live), live.unknown) == ("deny", "")

    objects = None
    live.look()
    assert (mode(live), live.unknown) == ("deny", "")
    assert mode(Live([file])) == "deny", "without a cluster there is nothing to read"


def test_an_exception_that_ends_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        text("deny")
        + "  exceptions:\n  - {rules: [unpinned-image], reason: a trial, owner: chat, expires: 2026-11-21}\n"
    )
    times = [NOW]
    live = Live([file], clock=lambda: times[0])
    before = live.policy.version
    assert live.policy.expired == ()

    times[0] = NOW + timedelta(days=1)
    live.look()
    live.look()

    assert live.policy.version != before, "no verdict is remembered that the exception made"
    assert live.report()[-1] == f"policy: {file}:9: expired on 2026-11-21"
    said = f"{file}:9: an exception of policy mine expired on 2026-11-21"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_a_misspelt_annotation_is_a_warning() -> None:
    pod = {**GOOD_POD, "metadata": {"name": "llama-8b", "annotations": {"podfit.dev/ignore.unknown-falg": "our fork"}}}
    client = Client(create_app(builtin(), Facts(), Metrics("1", "p", "f")))

    response = json.loads(client.post("/validate", json=admission_review(pod)).data)["response"]

    assert response["allowed"] is True
    assert "podfit.dev/ignore.unknown-falg" in " ".join(response["warnings"])


def test_exemptions_and_shadows_are_counted_and_audited(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    shadow = text("deny", "shadow").replace("spec:\n", "spec:\n  shadow: true\n")
    exception = "  exceptions:\n  - {rules: [unknown-flag], reason: a fork, owner: chat, expires: 2026-11-21}\n"
    file.write_text(f"{text('warn')}{exception}  allowIgnore: [unknown-flag]\n---\n{shadow}")
    live = Live([file], clock=lambda: NOW)
    metrics = Metrics("1", live.policy.version, "f")
    client = Client(create_app(live, Facts(), metrics))
    bad = doomed(GOOD_POD)
    bad["spec"]["containers"][0]["image"] = "vllm/vllm-openai:latest"

    answers = [json.loads(client.post("/validate", json=admission_review(bad)).data) for _ in range(2)]

    said = metrics.text().decode()
    exempted = 'by="exception",dry_run="false",rule="unknown-flag"'
    shadow_finding = 'dry_run="false",mode="deny",policy="shadow",rule="unpinned-image",would="deny"'
    assert f"podfit_exempted_findings_total{{{exempted}}} 2.0" in said
    assert 'podfit_shadow_reviews_total{decision="denied",dry_run="false",policy="shadow"} 2.0' in said
    assert f"podfit_shadow_findings_total{{{shadow_finding}}} 2.0" in said
    finding = 'dry_run="false",mode="warn",rule="unpinned-image",would="warn"'
    assert f"podfit_findings_total{{{finding}}} 2.0" in said
    for answer in answers:
        assert answer["response"]["allowed"]
        assert answer["response"]["auditAnnotations"]["exempted"] == "unknown-flag=exception"
        assert not [line for line in answer["response"]["warnings"] if "unknown-flag" in line]

    file.write_text(f"{text('warn')}  allowIgnore: [unknown-flag]\n")
    live.look()
    bad["metadata"] = {**bad["metadata"], "annotations": {"podfit.dev/ignore.unknown-flag": "our fork knows it"}}
    response = json.loads(client.post("/validate", json=admission_review(bad)).data)["response"]

    assert (response["allowed"], response["auditAnnotations"]["exempted"]) == (True, "unknown-flag=annotation")
    exempted = 'by="annotation",dry_run="false",rule="unknown-flag"'
    assert f"podfit_exempted_findings_total{{{exempted}}} 1.0" in metrics.text().decode()


def test_a_shadow_below_a_limit_says_what_it_would_deny_without_it(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    shadow = text("deny", "shadow").replace("spec:\n", "spec:\n  shadow: true\n")
    observe = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: z}\nspec: {enforce: {mode: audit}}\n"
    file.write_text(f"{shadow}---\n{observe}")
    live = Live([file], clock=lambda: NOW)
    metrics = Metrics("1", live.policy.version, "f")
    bad = json.loads(json.dumps(GOOD_POD))
    bad["spec"]["containers"][0]["image"] = "vllm/vllm-openai:latest"

    Client(create_app(live, Facts(), metrics)).post("/validate", json=admission_review(bad, dryRun=True))

    said = metrics.text().decode()
    finding = 'dry_run="true",mode="audit",policy="shadow",rule="unpinned-image",would="deny"'
    assert 'podfit_shadow_reviews_total{decision="would_deny",dry_run="true",policy="shadow"} 1.0' in said
    assert f"podfit_shadow_findings_total{{{finding}}} 1.0" in said
