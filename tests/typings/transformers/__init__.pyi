# For the type checker: it would read every model of transformers, a third of its whole time.
from typing import Any

def __getattr__(name: str) -> Any: ...
