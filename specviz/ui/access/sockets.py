"""Messages of a WebSocket whose session may end while the page is open."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Message, Receive, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

# Runs the whole page, without a click and without the values of its controls.
_OPEN_PAGE = BackMsg(rerun_script=ClientState()).SerializeToString()


def receive_while_open(receive: Receive, send: Send, is_open: Callable[[], bool]) -> Receive:
    """Return a ``receive`` that withholds what a browser sends after the end of its session.

    The first such message is replaced by a run of the page, which says that the session is over.
    The next one closes the connection.
    """
    told = False

    async def receive_checked() -> Message:
        nonlocal told
        message = await receive()
        if message["type"] != "websocket.receive" or is_open():
            return message
        if not told:
            told = True
            return {"type": "websocket.receive", "bytes": _OPEN_PAGE}
        await send({"type": "websocket.close", "code": 1008})
        return {"type": "websocket.disconnect", "code": 1008}

    return receive_checked
