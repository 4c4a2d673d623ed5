from typing import Any


def alternatives(*args: Any, **options: Any) -> list[Any]:
    return []
