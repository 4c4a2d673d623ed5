"""stub"""
from typing import Any
def ledger(*a: Any) -> Any: return None
