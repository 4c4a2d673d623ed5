"""Rules about vLLM's arguments and environment variables."""
