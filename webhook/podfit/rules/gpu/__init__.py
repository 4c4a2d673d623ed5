"""Rules about the GPUs: how many, which, and what they can do."""
