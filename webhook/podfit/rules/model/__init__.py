"""Rules about the model: whether it is known, and what its release and quantization ask for."""
