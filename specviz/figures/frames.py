"""A run as a table with one row per round."""

from __future__ import annotations

from typing import Any

import pandas as pd

from specviz.figures.acceptance import expected_alpha, tested_in
from specviz.record.server_run import ServerTrace
from specviz.record.trace import Trace


def rounds_frame(trace: Trace) -> pd.DataFrame:
    """Return a table with one row per round. Times are in seconds."""
    rounds = trace.rounds
    tested = [tested_in([entry]) for entry in rounds]
    columns: dict[str, Any] = {
        "round": [entry.index for entry in rounds],
        "context_length": [entry.context_length for entry in rounds],
        "drafted": [entry.num_drafted for entry in rounds],
        "tested": [len(each) for each in tested],
        "accepted": [entry.num_accepted for entry in rounds],
        "emitted": [len(entry.emitted) for entry in rounds],
        "alpha_expected": pd.Series([expected_alpha(each) for each in tested], dtype=float),
        "extra_kind": [entry.extra_kind for entry in rounds],
        "cut": [entry.cut for entry in rounds],
        "whole": [entry.whole for entry in rounds],
    }
    for name in ("draft", "verify", "other", "record", "decode"):
        columns[f"{name}_seconds"] = [getattr(entry.times, name) for entry in rounds]
    return pd.DataFrame(columns)


def answer_frame(trace: ServerTrace) -> pd.DataFrame:
    """Return a table with one row per round of an engine's answer; unreported values are empty."""
    rounds = trace.rounds
    columns: dict[str, Any] = {
        "round": [entry.index for entry in rounds],
        "drafted": pd.Series([entry.drafted for entry in rounds], dtype="Int64"),
        "accepted": pd.Series([entry.accepted for entry in rounds], dtype="Int64"),
        "emitted": pd.Series([entry.num_tokens or None for entry in rounds], dtype="Int64"),
        "at_seconds": [entry.at for entry in rounds],
        "merged": [entry.merged for entry in rounds],
        "engine": trace.info.title,
    }
    return pd.DataFrame(columns)
