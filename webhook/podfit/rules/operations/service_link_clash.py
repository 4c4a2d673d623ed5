from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.companions import describe
from podfit.kube.patch import Edit
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.release import Release, is_official

PORTS = (
    "VLLM_PORT", "VLLM_DP_MASTER_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_MOONCAKE_BOOTSTRAP_PORT",
    "VLLM_EC_SIDE_CHANNEL_PORT", "VLLM_P2P_SIDE_CHANNEL_PORT",
)  # fmt: skip
"""Variables of vLLM that hold a port's number (vLLM 0.33 envs.py)."""

ALWAYS_READS = Release(0, 4, 3)
"""From this release on vLLM reads VLLM_PORT whenever an engine starts (utils get_open_port)."""


class ServiceLinkClash(Rule):
    """A Service's name sets one of vLLM's own variables in the Pods of its namespace.

    For each Service with an address Kubernetes sets `NAME_PORT=tcp://10.0.0.7:8000` in every container of the namespace
    that starts after it. Thus a Service called `vllm` sets VLLM_PORT, from which vLLM reads the number of a port:

        ValueError: VLLM_PORT 'tcp://10.0.0.7:8000' appears to be a URI. This may be caused by a Kubernetes service
        discovery issue

    vLLM does not start, or not again after its first restart. `enableServiceLinks: false` in the Pod, another name for
    the Service, or VLLM_PORT set by the Pod itself each avoid it; a headless Service has no address and sets nothing.
    """

    plane = "network"
    event = "vLLM exits: VLLM_PORT is a URI"
    of_vllm = False
    mode = "deny"
    where = frozenset({"check", "scan"})

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for VLLM_PORT in vLLM's own image if Service and workload name the same namespace, or neither names
        one; else likely. None for a Service whose variable vLLM does not read, or the container sets or unsets."""
        if engine.pod("enableServiceLinks") is False or engine.command.entry == "worker":
            return
        for name, service in engine.facts.companions.addresses(engine.workload):
            variable = f"{name.upper().replace('-', '_')}_PORT"
            if variable not in PORTS or variable in engine.declared or variable in engine.command.env:
                continue
            if engine.command.decided & {variable, "*"}:
                continue  # the script sets or unsets it: `unset VLLM_PORT`, `env -u VLLM_PORT`
            where = engine.workload.path / "enableServiceLinks"
            why = _uncertain(engine, service, variable)
            yield Finding(
                path=where,
                message=f"{describe(service)} sets {variable}=tcp://… in this Pod, and vLLM does not start",
                certainty="likely" if why else "certain",
                uncertain=why,
                suggestions=("enableServiceLinks: false in the Pod", "another name for the Service"),
                fix=(Edit(where, False),) if not engine.container.synthetic else (),
            )


def _uncertain(engine: Engine, service: JSON, variable: str) -> str | None:
    """The reason why it is not certain that the Service's `variable` ends vLLM; None if it is. A value that an
    `envFrom` or the image sets replaces the Service's."""
    metadata, image = service.get("metadata"), engine.field("image")
    if variable != "VLLM_PORT":
        return f"vLLM reads {variable} only where a feature needs it"
    if not isinstance(metadata, dict) or metadata.get("namespace") != engine.workload.namespace:
        return "Service and workload may be in different namespaces: only one of them names its own"
    if image is None:
        return f"the image is named elsewhere, and may set {variable} itself"
    if not isinstance(image, str) or not is_official(image):
        return f"image {str(image)!r} is none of vLLM's own, and may set {variable} itself"
    if engine.field("envFrom"):
        return f"an envFrom may set {variable} itself"
    if engine.release is not None and engine.release < ALWAYS_READS:
        return f"vLLM {engine.release} does not always read {variable}"
    return None
