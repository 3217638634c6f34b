"""Access to a dashboard that others can reach: the gate, its token, and logins."""

from specviz.ui.access.addresses import is_loopback
from specviz.ui.access.gate import PERSON_IN_SCOPE, SESSION_HEADER, AccessGate
from specviz.ui.access.link import announce_link
from specviz.ui.access.state import (
    TOKEN,
    Access,
    Penalties,
    reachable_by_others,
    require_usable_access,
    the_access,
)

__all__ = [
    "PERSON_IN_SCOPE",
    "SESSION_HEADER",
    "TOKEN",
    "Access",
    "AccessGate",
    "Penalties",
    "announce_link",
    "is_loopback",
    "reachable_by_others",
    "require_usable_access",
    "the_access",
]
