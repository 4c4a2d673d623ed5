"""What the rules about host memory share: the limit that would be enough."""

from __future__ import annotations

from webhook.engine import Engine
from webhook.quantity import round_up_gi


def advised_limit(engine: Engine) -> int | None:
    """Bytes, in whole GiB: the high estimate, and room for the checkpoint in the page cache while it is read."""
    host = engine.plan.host
    if host is None:
        return None
    return round_up_gi(max(host.peak.high, host.steady.high, (engine.plan.checkpoint or 0) + host.peak.likely))
