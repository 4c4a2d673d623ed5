from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from podfit.kube.path import mapping
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule

VARIABLE = "VLLM_NIXL_SIDE_CHANNEL_HOST"
AIBRIX = ("StormService", "RoleSet", "PodSet")
EVERY_ADDRESS = ("0.0.0.0", "::", "[::]")  # noqa: S104 - read, not bound


class NixlSideChannelHost(Rule):
    """NIXL's side channel has an address at which no peer reaches it.

    vLLM listens at VLLM_NIXL_SIDE_CHANNEL_HOST and sends the same text to its peers as the address to dial (vLLM 0.33
    distributed/kv_transfer/kv_connector/v1/nixl/). `0.0.0.0` is right to listen at, but a peer that dials it reaches
    itself, and the transfer of KV cache fails with each request (volcano-sh/kthena#1781).

    The address has to be the Pod's own: `valueFrom: {fieldRef: {fieldPath: status.podIP}}`.
    """

    plane = "network"
    event = "requests fail: the peer dials itself and gets no KV cache"
    of_vllm = False
    threatens = "uptime"
    never_denies = "both peers may be in one Pod"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: prefill and decode may be in one Pod. None without NIXL, for a consumer, which dials and is not
        dialed, and behind AIBrix' gateway."""
        host = engine.command.env.get(VARIABLE)
        config = engine.args.given.get("kv_transfer_config")
        if host not in EVERY_ADDRESS or not isinstance(config, dict) or "nixl" not in _connectors(config).lower():
            return
        if config.get("kv_role") == "kv_consumer":
            return  # it dials, and is not dialed
        if _is_routed_by_aibrix(engine):
            return
        entries = (engine.at("env", index, "value") for index, name, _ in engine.variables if name == VARIABLE)
        yield Finding(
            path=next(entries, engine.command.path),
            message=f"{VARIABLE} is {host!r}: a peer that dials it reaches itself",
            certainty="likely",
            suggestions=(f"env {VARIABLE} with valueFrom.fieldRef.fieldPath: status.podIP",),
        )


def _is_routed_by_aibrix(engine: Engine) -> bool:
    """True if AIBrix' gateway writes the prefill Pod's IP into each request, in place of the address that vLLM sends
    (vllm-project/aibrix pkg/plugins/gateway/algorithms/pd_disaggregation.go)."""
    labels = mapping(engine.workload.metadata.get("labels"))
    return engine.workload.kind in AIBRIX or any(str(name).startswith("model.aibrix.ai/") for name in labels)


def _connectors(config: dict[str, Any]) -> str:
    """The KV connectors, with those within a MultiConnector."""
    inner = config.get("kv_connector_extra_config")
    value = inner.get("connectors") if isinstance(inner, dict) else None
    return f"{config.get('kv_connector')} {json.dumps(value, default=str) if isinstance(value, list) else ''}"
