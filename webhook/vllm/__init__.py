"""What vLLM does with a container: its command, arguments, model, GPUs and memory. Pure."""
