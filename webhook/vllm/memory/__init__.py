"""The two ledgers: what vLLM takes of GPU memory and of host memory, line by line, and whether it fits."""
