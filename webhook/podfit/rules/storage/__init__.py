"""Rules about volumes, caches and where a model's files go."""
