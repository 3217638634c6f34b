"""The state of a load test that is running, for a view that refreshes."""

from __future__ import annotations

from typing import Literal

from specviz.record.load_run import LoadLane
from specviz.values import Value

# The state of a user, or of a place for requests of an open loop. *prefill*: the request was sent,
# and nothing has arrived. *pausing*: a request failed, and the user waits before the next one.
UserState = Literal["idle", "prefill", "decoding", "pausing"]
RECENT = 3.0  # seconds over which ``LoadNow.tokens_per_second`` is an average
MOST_USERS = 64  # shown one by one


class LoadNow(Value):
    """The measurement in progress (a block): requests to one server at one level of load.

    ``elapsed`` and the planned ``seconds`` include the ramps before and after the measured window.
    """

    lane: LoadLane
    level: float
    block: int  # from 1
    blocks: int  # planned
    elapsed: float
    seconds: float
    in_flight: int
    tokens_per_second: float
    failures: int
    users: tuple[UserState, ...] = ()
