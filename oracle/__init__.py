"""A maintainer's tool: compares podfit's plans with vLLM's own code on generated command lines; docs/oracle.md."""
