"""Fake machine resources for bodies of the embedded pair, without probing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.record.bodies import ModelShape, Shape
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairSpec
from specviz.worker.parent.client import Room, Worker

DRAFT = ModelShape(
    shape=Shape(width=192, feed_forward=512, layers=1),
    heads=6,
    key_heads=6,
    head_width=32,
    vocabulary=4096,
    tied=True,
)
TARGET = replace(DRAFT, shape=replace(DRAFT.shape, layers=12))
LAPTOP = BodyRoom(target=TARGET, draft=DRAFT, bandwidth=28e9, memory_free=16 * 10**9, itemsize=4)
SLOW = replace(LAPTOP, bandwidth=4e9)  # a step of 30M takes 50 ms, and of 60M too long
STONE_AGE = replace(LAPTOP, bandwidth=1e9)
CRAMPED = replace(LAPTOP, memory_free=2 * 10**9)


def answer_with(patch: pytest.MonkeyPatch, found: BodyRoom | None) -> list[Room]:
    """Let the worker report these resources; with None, return the pending requests."""
    requests: list[Room] = []

    def room(_worker: Worker, spec: PairSpec) -> Room:
        requests.append(Room())
        if found is not None:
            requests[-1].end(found, None)
        return requests[-1]

    patch.setattr(Worker, "room", room)
    return requests
