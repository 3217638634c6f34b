"""The rules for requests from the pages to serving engines; see ``servers/outgoing.py``."""

from __future__ import annotations

from specviz.access.settings import the_settings
from specviz.servers.outgoing import Rules, the_outgoing
from specviz.ui.access import reachable_by_others


def guard_outgoing() -> None:
    """Make all requests of this process obey the settings. Calling it again changes nothing."""
    the_outgoing().rules = page_rules


def page_rules() -> Rules:
    listed = the_settings().servers
    return Rules(listed=listed or (), only_listed=listed is not None or reachable_by_others())
