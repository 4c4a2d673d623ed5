"""What the rules about dtypes share."""

from __future__ import annotations

NO_HALF = ("gemma2", "gemma3", "gemma3_text", "glm4")
"""Model types whose activations overflow float16: _FLOAT16_NOT_SUPPORTED_MODELS of vLLM 0.10.2 config/__init__.py, and
of 0.11, 0.13 and 0.33 config/model.py."""
