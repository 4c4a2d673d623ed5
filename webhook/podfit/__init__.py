"""podfit: will this vLLM Pod start, and will it stay up?"""

__version__ = "0.2.0"
