"""Which page a request comes from.

Streamlit accepts a WebSocket without an Origin, and a WebSocket from any page of localhost.
Browsers share cookies between the ports of a host. So the gate accepts a WebSocket only from a page
of this dashboard.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope
from streamlit import config

from specviz.ui.access.addresses import is_encrypted
from specviz.ui.access.providers import own_origin


def is_own_origin(scope: Scope) -> bool:
    """Return whether a request comes from a page of this dashboard.

    The request's Origin must be the host of the request, the address in the settings of the login,
    or an address in ``server.corsAllowedOrigins`` (for proxies that change the Host header). Under
    https, the host's pages under http are foreign, because others on the network can change them.
    """
    headers = Headers(scope=scope)
    origins, hosts = headers.getlist("origin"), headers.getlist("host")
    if len(origins) != 1 or len(hosts) != 1:
        return False
    origin = origins[0].lower()
    try:
        scheme, place, *rest = urlsplit(origin)
    except ValueError:
        return False
    if scheme not in ("http", "https") or not place or any(rest):
        return False
    if is_encrypted(scope) and scheme == "http":
        return origin in _listed()
    return place == hosts[0].lower() or origin in _listed()


def _listed() -> set[str]:
    listed = [str(each) for each in config.get_option("server.corsAllowedOrigins")]
    return {each.strip().lower() for each in [*listed, own_origin() or ""] if each.strip()}
