"""The policy in force in a cluster: what `--policy cluster` names, and what `podfit scan` evaluates by."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

from podfit.cli.support import edge, user_cluster
from podfit.cluster import policies as cluster_policies
from podfit.cluster.access import Client
from podfit.cluster.policies import InstalledPolicy, UnknownPolicyError
from podfit.evaluation.policy import Policy, PolicyError
from podfit.server import live
from podfit.server.live import Objects

INSTALLED, OBJECTS = "configmaps (podfit's policy)", "policies.podfit.dev"
"""The two sources, for people."""
WITHOUT = {
    INSTALLED: "the decisions are those of podfit's default policy",
    OBJECTS: "the decisions are without them",
}
"""The note of a scan without this source of policies."""
NOT_SERVED = f"podfit enforces nothing: the API server does not serve {OBJECTS} (its CustomResourceDefinition is gone)"


@dataclass(frozen=True)
class PolicyInForce:
    """The policy that the cluster's servers apply, as far as the user may read it."""

    policy: Policy
    unread: dict[str, str] = field(default_factory=dict)
    """Source → why it is unknown, in one line; the policy is without it."""
    notes: tuple[str, ...] = ()
    """Broken Policy objects, whose last good state is in force; and why nothing is enforced."""


def in_force(client: Client, files: Sequence[tuple[str, str]], *, with_installed: bool = True) -> PolicyInForce:
    """The policy in force: the installed podfit's, other files (name and text), the Policy objects.

    Raises UnusableError if a file can't be used, StatusError or OSError if the API server fails."""
    installed, unread = InstalledPolicy(), dict[str, str]()
    if with_installed:
        try:
            installed = cluster_policies.installed(client)
        except UnknownPolicyError as error:
            unread[INSTALLED] = str(error)
    objects: Objects | None = {}
    if installed.reads_objects:
        try:
            objects = cluster_policies.objects(client)
        except UnknownPolicyError as error:
            unread[OBJECTS] = str(error)
    try:
        policy, problems = live.policy_now([*installed.texts, *files], objects or {}, edge.now())
    except PolicyError as error:
        raise edge.UnusableError(error.problems) from error
    notes = tuple(f"{problem}; the last good state is in force" for problem in problems)
    if installed.texts and objects is None:  # as `Live.unknown`
        return PolicyInForce(policy.audited(), unread, (*notes, NOT_SERVED))
    return PolicyInForce(policy, unread, notes)


def read(args: argparse.Namespace, files: Sequence[tuple[str, str]]) -> Policy:
    """The policy in force in the user's cluster. Raises UnusableError (exit 3) if a part of it is unknown."""
    with user_cluster.client(args) as client, user_cluster.errors_reported("--policy cluster"):
        policy_in_force = in_force(client, files)
        if policy_in_force.unread:
            raise edge.UnusableError(
                [f"--policy cluster: {name}: {why}" for name, why in policy_in_force.unread.items()], 3
            )
        for note in policy_in_force.notes:
            edge.tell(f"note: {note}")
    return policy_in_force.policy
