"""Storage: traces as versioned JSON, small persistent values, and the run library."""

from specviz.store.files import MAX_BYTES, parsed
from specviz.store.kept_values import change_value, data_folder, load_value, save_value
from specviz.store.library import Library
from specviz.store.rows import ComparisonRow, Facets, NewRun, Query, RunRow, RunSummary, SortKey
from specviz.store.traces import (
    KIND,
    SCHEMA,
    as_trace,
    load_run,
    load_trace,
    run_from_json,
    run_from_record,
    save_trace,
    trace_from_json,
    trace_to_json,
)
from specviz.store.viewpoint import EVERYTHING, SHARED, Viewpoint, stored_key, viewpoint_of

__all__ = [
    "EVERYTHING",
    "KIND",
    "MAX_BYTES",
    "SCHEMA",
    "SHARED",
    "ComparisonRow",
    "Facets",
    "Library",
    "NewRun",
    "Query",
    "RunRow",
    "RunSummary",
    "SortKey",
    "Viewpoint",
    "as_trace",
    "change_value",
    "data_folder",
    "load_run",
    "load_trace",
    "load_value",
    "parsed",
    "run_from_json",
    "run_from_record",
    "save_trace",
    "save_value",
    "stored_key",
    "trace_from_json",
    "trace_to_json",
    "viewpoint_of",
]
