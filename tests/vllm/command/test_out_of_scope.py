"""Servers that podfit does not see (docs/security.md): they are not evaluated, rather than evaluated wrongly."""

from __future__ import annotations

import pytest

from tests.vllm.command.pods import container, script


@pytest.mark.parametrize(
    "text",
    [
        "echo dmxsbSBzZXJ2ZSBt | base64 -d | bash",
        "curl -s https://example.com/start.sh | bash",
        "bash <(curl -s https://example.com/start.sh)",
        "curl -so /tmp/start.sh https://example.com/start.sh; bash /tmp/start.sh",
        "alias v='vllm serve'; v m",
        "python3 -c 'import vllm; vllm.LLM(\"m\")'",
        'sh -c "$COMMAND"',
    ],
)
def test_a_script_that_hides_the_server_is_not_judged(text: str) -> None:
    assert script(text) is None


def test_an_image_with_an_entrypoint_of_its_own_is_not_judged() -> None:
    assert container({"image": "registry.example/server:1"}) is None
