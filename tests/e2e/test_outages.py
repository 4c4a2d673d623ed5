"""podfit away, slow or broken: what happens to all other objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conftest import GOOD_POD
from tests.e2e.release import Podfit
from tests.e2e.user import User
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]
Golden = Callable[[str], None]
UserOf = Callable[[Podfit], User]
Install = Callable[..., Podfit]
BROKEN = """
import sys
from podfit import cli
from podfit.rules.command_line.unknown_flag import UnknownFlag

def check(self, engine):
    raise RuntimeError("a bug")

UnknownFlag.check = check
sys.exit(cli.main())
"""


def test_with_the_server_gone_applies_go_on(install: Install, user_of: UserOf, golden: Golden) -> None:
    user = user_of(install())
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))
    user.podfit.gone()

    user.kubectl("apply -f llama-8b.yaml")

    golden(user.screen)
    assert user.stored("apps/deployments", "llama-8b")


def test_with_failure_policy_fail_and_the_server_gone_vllm_is_refused_and_nothing_else(
    install: Install, user_of: UserOf
) -> None:
    user = user_of(install({"webhooks": {"failurePolicy": "Fail"}}))
    user.write("llama-8b.yaml", deployment(GOOD_POD))
    user.podfit.gone()

    shown = user.kubectl("apply -f llama-8b.yaml", exits=1)
    user.kubectl("create deployment web --image=nginx:1.29")

    assert 'Error from server (InternalError): error when creating "llama-8b.yaml"' in shown
    assert 'failed calling webhook "workloads.podfit.dev"' in shown


def test_with_a_server_that_hangs_applies_go_on_after_the_charts_timeout(install: Install, user_of: UserOf) -> None:
    user = user_of(install({"webhooks": {"timeoutSeconds": 1}}))
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))

    with user.podfit.frozen():
        user.kubectl("apply -f llama-8b.yaml")

    assert user.stored("apps/deployments", "llama-8b")


def test_a_rule_that_raises_blocks_nothing_and_is_told(install: Install, user_of: UserOf, golden: Golden) -> None:
    user = user_of(install(program=("-c", BROKEN)))
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))

    user.kubectl("apply -f llama-8b.yaml")

    golden(user.screen)
    assert "ERROR validate: unknown-flag raised RuntimeError: Deployment" in user.podfit.said()
