"""Import traces from files into the library. A file is imported whole, or refused with a reason.

Files are not trusted: a trace must parse, and its metrics and player data must be computable. A run
that the library already has is not imported again. A run that the user has deleted is restored.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import cast

import streamlit as st

from specviz.comparison.to_json import KIND as COMPARISON
from specviz.errors import SpecvizError, TraceError
from specviz.player.any_run import payload_of_run
from specviz.player.replay import script_json
from specviz.record.numbers import SIZE
from specviz.record.server_run import AnyTrace
from specviz.store import KIND as TRACE
from specviz.store import Library, NewRun, parsed, run_from_record
from specviz.store.saving import summary_of
from specviz.values import Value

MOST_FILES = 50
MOST_BYTES = 32 * 10**6  # about 14,000 tokens with the full record
# All other tabs wait while JSON is parsed, so files with too many parts are refused. The largest
# trace, with the full record, has 0.35 million lists and objects and 2.5 million values.
MOST_PARTS = 750_000
MOST_VALUES = 4_000_000
_OPENING = (b"[", b"{")
MOST_ROUNDS = 200_000
_ANOTHER = "Choose a file written by specviz."
_DONE = "runs imported"
_SHOWN_SECONDS = 20.0


class Imported(Value):
    run_ids: tuple[str, ...] = ()
    known: int = 0  # how many of ``run_ids`` were already in the library
    refused: tuple[str, ...] = ()  # a line per refused file: name and reason


def import_files(library: Library, files: Iterable[tuple[str, bytes]]) -> Imported:
    """Import files, given as (name, content). A refused file does not stop the import of others."""
    made: list[str] = []
    known = 0
    refused: list[str] = []
    for number, (name, content) in enumerate(files):
        try:
            if number >= MOST_FILES:
                raise TraceError(
                    f"More than {MOST_FILES} files were chosen.",
                    remedy="Import this file separately.",
                )
            run_id, was_known = _import(library, name, content)
            made.append(run_id)
            known += was_known
        except SpecvizError as error:
            refused.append(f"{_shown(name)}: {error}")
    return Imported(run_ids=tuple(made), known=known, refused=tuple(refused))


def _import(library: Library, name: str, content: bytes) -> tuple[str, bool]:
    """Import one file; return the run's id, and whether the run was already in the library."""
    trace = _checked(_read(content))
    name = PurePosixPath(_shown(name)).stem
    return library.add_unless_there(NewRun(trace=trace, summary=summary_of(trace), name=name))


def _read(content: bytes) -> AnyTrace:
    if len(content) > MOST_BYTES:
        raise TraceError(
            f"It is larger than {SIZE.shown(MOST_BYTES)}.", remedy="Import a trace of one run."
        )
    if sum(content.count(each) for each in _OPENING) > MOST_PARTS or (
        content.count(b",") > MOST_VALUES
    ):
        raise TraceError("It has too many parts for a trace.", remedy=_ANOTHER)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TraceError("It is not JSON.", remedy=_ANOTHER) from None
    record = parsed(text, "It")
    del text
    try:
        return run_from_record(record, "It")
    except TraceError as error:
        raise _other_kind(error, record) from None


def _other_kind(error: TraceError, record: object) -> TraceError:
    """Return the error for a file that is not a valid trace.

    The remedy depends on what the file contains.
    """
    kind = cast("dict[str, object]", record).get("kind") if isinstance(record, dict) else None
    if kind == COMPARISON:
        return TraceError("It is a comparison of runs.", remedy="Import the trace of one run.")
    return error if kind == TRACE else TraceError(error.culprit, remedy=_ANOTHER)


def _checked(trace: AnyTrace) -> AnyTrace:
    if not trace.rounds or len(trace.rounds) > MOST_ROUNDS:
        raise TraceError(
            f"It has {len(trace.rounds)} rounds.",
            remedy=f"Import a run of 1 to {MOST_ROUNDS} rounds.",
        )
    try:
        script_json(payload_of_run(trace, run_id="import", state="recorded", label=""))
    except Exception as error:
        # A well-formed record may be meaningless. It must be refused now, not fail when shown.
        raise TraceError(
            "It is damaged: its figures cannot be computed.",
            remedy="Save the run again, or use another copy.",
        ) from error
    return trace


def _shown(name: str) -> str:
    """Return a file's name as at most 80 printable characters."""
    clean = "".join(each if each.isprintable() else "?" for each in name)
    return clean if len(clean) <= 80 else f"{clean[:79]}…"


def show_import(library: Library) -> None:
    with st.popover("Import", key="runs_import"):
        st.caption(
            f"Traces saved by specviz (JSON): up to {MOST_FILES} files of at most "
            f"{SIZE.shown(MOST_BYTES)}."
        )
        with st.form("runs_import_form", border=False, clear_on_submit=True):
            files = st.file_uploader(
                "Trace files", type="json", accept_multiple_files=True, key="runs_files_in",
                max_upload_size=MOST_BYTES // 10**6, label_visibility="collapsed",
            )  # fmt: skip
            if st.form_submit_button("Import these") and files:
                given = ((file.name, file.getvalue()) for file in files)
                st.session_state[_DONE] = import_files(library, given), time.monotonic()
                st.rerun()


def show_imported() -> None:
    """Show the result of the last import for some seconds.

    File names are not trusted, so they are shown as plain text. The result must outlast a rerun,
    because clearing the form reruns the page at an unknown moment.
    """
    done: Imported
    done, when = st.session_state.get(_DONE, (None, 0.0))
    if done is None or time.monotonic() - when > _SHOWN_SECONDS:
        return
    if done.run_ids:
        st.success(_outcome(len(done.run_ids) - done.known, done.known))
    if done.refused:
        count = "One file was" if len(done.refused) == 1 else f"{len(done.refused)} files were"
        with st.container(border=True, key="runs_refused", gap="small"):
            st.markdown(f"**{count} not imported.**")
            st.text("\n".join(done.refused))


def _outcome(new: int, known: int) -> str:
    parts: list[str] = []
    if new:
        parts.append(f"{new} run{'' if new == 1 else 's'} imported.")
    if known:
        parts.append(f"{known} {'was' if known == 1 else 'were'} already in the library.")
    return " ".join(parts)
