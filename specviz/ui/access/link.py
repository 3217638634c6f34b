"""The link with the access token, printed where the dashboard was started."""

from __future__ import annotations

import sys

from starlette.types import Scope
from streamlit import config, net_util
from streamlit.web.server.server_util import get_url

from specviz.access.demo import is_demo
from specviz.ui.access.addresses import configured_address, in_url, is_encrypted, server_of
from specviz.ui.access.state import Access, reachable_by_others, the_access

_WILDCARDS = ("", "0.0.0.0", "::")


def announce_link() -> None:
    """Print the link with the token if others can reach the configured address.

    If the ASGI server is not Streamlit's own, Streamlit's options do not contain the address. The
    gate then prints the link when it refuses the first connection.
    """
    ours = str(getattr(config, "_server_mode", "")).startswith("starlette")
    access = the_access()
    if ours and reachable_by_others() and (access.always or not is_demo()):
        _announce(access, _own_link())


def announce_once(access: Access, scope: Scope) -> None:
    """Print the link to the address of this connection, unless a link was printed before."""
    if not access.announced:
        # The Host header is not used: a stranger could set it to another site, and the owner
        # may follow the printed link.
        host, port = server_of(scope)
        scheme = "https" if is_encrypted(scope) else "http"
        place = in_url(host) + ("" if port is None else f":{port}")
        _announce(access, f"{scheme}://{place}{scope.get('root_path', '')}/")


def _own_link() -> str:
    """Return the dashboard's address according to Streamlit's startup options."""
    host = configured_address()
    if config.is_manually_set("browser.serverAddress"):
        host = str(config.get_option("browser.serverAddress"))
    elif host in _WILDCARDS:
        host = net_util.get_internal_ip() or "127.0.0.1"
    return f"{get_url(in_url(host))}/"


def _announce(access: Access, url: str) -> None:
    access.announced = True
    lines = (
        "Open the dashboard with this link, which contains its access token:\n",
        f"  {url}?token={access.token}\n",
    )
    sys.stderr.writelines(lines)
    sys.stderr.flush()
