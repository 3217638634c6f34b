"""Clients for serving engines, which convert each engine's reports on speculation to one format.

``find_server`` recognises an engine, ``ask`` sends it a prompt, and ``read_counters`` reads its
counters over all requests. Data from an engine are not trusted: ``foreign_json`` decodes them
and removes the bearer key, and ``account`` checks the counts.
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
