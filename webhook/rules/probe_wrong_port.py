"""Rule probe-wrong-port."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.engine import Engine
from webhook.rule import Finding, Rule
from webhook.rules import _probe


class ProbeWrongPort(Rule):
    """A probe asks a port that vLLM does not listen on.

    vLLM listens on `--port` (8000 where it is not given). A startup or liveness probe on another port never succeeds,
    and the kubelet restarts a healthy container for ever:

        Startup probe failed: Get "http://10.0.0.7:8000/health": dial tcp 10.0.0.7:8000: connect: connection refused

    Where another container of the Pod listens there, the probe asks that one.
    """

    plane = "network"
    threatens = "uptime"
    mode = "deny"
    mute_for = ("args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain where vLLM is alone in its Pod and no script could start something else."""
        if engine.port is None or engine.container.init:
            return
        alone = len(engine.workload.containers) == 1 and not engine.command.shell
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = _probe.probe(engine, name)
            for action in ("httpGet", "tcpSocket"):
                asked = probe.get(action) if probe else None
                port = _probe.number(engine, asked.get("port")) if isinstance(asked, Mapping) else None
                if port is not None and port != engine.port and not (isinstance(asked, Mapping) and asked.get("host")):
                    yield Finding(
                        path=engine.at(name, action, "port"),
                        message=f"the {name} asks port {port}, vLLM listens on {engine.port}",
                        certainty="certain" if alone and name != "readinessProbe" else "likely",
                        suggestions=(f"port: {engine.port}",),
                    )
