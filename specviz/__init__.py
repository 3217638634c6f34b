"""specviz: watch speculative decoding happen on a real pair, and trust every number."""

__version__ = "0.1.0"
