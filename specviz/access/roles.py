"""People, their roles, and what each role may do."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from specviz.values import Value


class Role(IntEnum):
    """A person's role; a higher role may do everything that a lower role may do."""

    VIEWER = 1  # stored runs, theory, Learn on recorded rounds
    STUDENT = 2  # also runs of the loaded pair, within the limits
    OWNER = 3


class Action(StrEnum):
    """What a role may or may not do."""

    READ = "read shared runs"
    RUN = "start a run of the loaded pair"
    EDIT = "name, tag and delete runs of one's own"
    OPEN_FILE = "open a file from one's own computer"
    LOAD = "choose, load or download a model"
    MEASURE = "compare, tune, check or train"
    ASK_SERVER = "send requests to a server"
    MANAGE = "change or stop the work of others"


_LEAST = {
    Action.READ: Role.VIEWER,
    Action.RUN: Role.STUDENT,
    Action.EDIT: Role.STUDENT,
    Action.OPEN_FILE: Role.STUDENT,
    Action.LOAD: Role.OWNER,
    Action.MEASURE: Role.OWNER,
    Action.ASK_SERVER: Role.OWNER,
    Action.MANAGE: Role.OWNER,
}


class Person(Value):
    """Somebody who uses the dashboard."""

    key: str  # the e-mail address in lower case; "" for the owner of an open dashboard
    role: Role

    def may(self, action: Action) -> bool:
        return self.role >= _LEAST[action]


OPEN_OWNER = Person(key="", role=Role.OWNER)  # everybody, if no login is set up
EVERYBODY = Person(key="everybody", role=Role.VIEWER)  # in demo mode
