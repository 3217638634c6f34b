"""Serving engines at an address: what they report about speculation, as the same values for all.

``find_server`` recognises an engine, ``ask`` has it answer a prompt, ``read_counters`` reads what
it counts of everything it serves. Nothing that an engine sends is trusted: ``foreign_json`` decodes
it and removes the key, ``account`` checks its counts.
"""

from specviz.servers.address import BASELINE_KEY, SERVER_KEY, is_local
from specviz.servers.asking import Answer, ask
from specviz.servers.counters import Rates, counters_of_dump, rates, read_counters
from specviz.servers.finding import find_server
from specviz.servers.vllm_log import counters_of_log

__all__ = [
    "BASELINE_KEY",
    "SERVER_KEY",
    "Answer",
    "Rates",
    "ask",
    "counters_of_dump",
    "counters_of_log",
    "find_server",
    "is_local",
    "rates",
    "read_counters",
]
