"""What a browser may send through a WebSocket, and what happens when its session ends.

Any tab can send a few messages that concern the whole server, and Streamlit obeys them. One of
these messages clears all caches, which would end the worker and all jobs. So only owners may send
such messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from google.protobuf.message import DecodeError
from starlette.types import Message, Receive, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from specviz.access.roles import Action, Person

# Runs the whole page, without a click and without the values of its controls.
_OPEN_PAGE = BackMsg(rerun_script=ClientState()).SerializeToString()
_DROPPED_SECONDS = 30.0
_OWN_TAB = {"rerun_script", "stop_script", "app_heartbeat", "file_urls_request"}
_OPERATIONS = {"deferred_file", "dataframe_chunk"}


def checked_receive(
    receive: Receive,
    send: Send,
    person: Callable[[], Person | None],
    now: Callable[[], float] = time.monotonic,
) -> Receive:
    """Return a ``receive`` that withholds what a browser may not send.

    After the end of the session, the browser's first message is replaced by a run of the page,
    which says that the session is over. For a short time, further messages are dropped, because
    parts of the page may have sent them on their own. After this time, a message closes the
    connection.

    Args:
        person: Returns who is connected; None after the end of the session.
    """
    noticed_at: float | None = None

    async def receive_checked() -> Message:
        nonlocal noticed_at
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            sender = person()
            if sender is not None:
                if sender.may(Action.MANAGE) or concerns_own_tab(message.get("bytes")):
                    return message
            elif noticed_at is None:
                noticed_at = now()
                return {"type": "websocket.receive", "bytes": _OPEN_PAGE}
            elif now() - noticed_at > _DROPPED_SECONDS:
                await send({"type": "websocket.close", "code": 1008})
                return {"type": "websocket.disconnect", "code": 1008}

    return receive_checked


def concerns_own_tab(data: bytes | None) -> bool:
    """Return whether a message concerns only the tab that sends it, or is not for Streamlit."""
    message = BackMsg()
    try:
        message.ParseFromString(data or b"")
    except DecodeError:
        return True  # Streamlit closes the connection
    kind = message.WhichOneof("type")
    if kind == "backend_operation_request":
        return message.backend_operation_request.WhichOneof("payload") in _OPERATIONS
    return kind is None or kind in _OWN_TAB
