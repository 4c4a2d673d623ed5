from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from podfit.kube.path import FieldPath, mapping
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule

VARIABLE = "VLLM_NIXL_SIDE_CHANNEL_HOST"
AIBRIX = ("StormService", "RoleSet", "PodSet")
"""Kinds of AIBrix, whose gateway routes the requests."""
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
        if host not in EVERY_ADDRESS or not isinstance(config, dict) or not _has_nixl(config):
            return
        if config.get("kv_role") == "kv_consumer":
            return  # it dials, and is not dialed
        if _is_routed_by_aibrix(engine):
            return
        yield Finding(
            path=_place(engine),
            message=f"{VARIABLE} is {host!r}: a peer that dials it reaches itself",
            certainty="likely",
            suggestions=(f"env {VARIABLE} with valueFrom.fieldRef.fieldPath: status.podIP",),
        )


def _place(engine: Engine) -> FieldPath:
    """The path of the variable's value in `env`; else of the command, whose script sets it."""
    for variable in engine.variables:
        if variable.name == VARIABLE:
            return engine.at("env", variable.position, "value")
    return engine.command.path


def _is_routed_by_aibrix(engine: Engine) -> bool:
    """True if AIBrix' gateway writes the prefill Pod's IP into each request, in place of the address that vLLM sends
    (vllm-project/aibrix pkg/plugins/gateway/algorithms/pd_disaggregation.go)."""
    labels = mapping(engine.workload.metadata.get("labels"))
    return engine.workload.kind in AIBRIX or any(str(name).startswith("model.aibrix.ai/") for name in labels)


def _has_nixl(config: dict[str, Any]) -> bool:
    """True if the KV transfer config names a connector of NIXL: as the connector, or within a MultiConnector."""
    extra_config = config.get("kv_connector_extra_config")
    inner = extra_config.get("connectors") if isinstance(extra_config, dict) else None
    inner_text = json.dumps(inner, default=str) if isinstance(inner, list) else ""
    return "nixl" in f"{config.get('kv_connector')} {inner_text}".lower()
