"""A maintainer's tool: vLLM's own code, on generated command lines, as the judge of podfit's plans; docs/oracle.md."""
