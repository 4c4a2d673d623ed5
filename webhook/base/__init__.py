"""Values and texts that know nothing of Kubernetes or vLLM."""
