"""Kubernetes objects: what they say and how they hang together. Pure, and nothing about vLLM."""
