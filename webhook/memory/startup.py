"""stub"""
from typing import Any
def estimate(*a: Any, **k: Any) -> Any: return None
