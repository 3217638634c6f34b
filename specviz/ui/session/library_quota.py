"""Keep the run library within its quota, and show on Runs what was deleted."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from specviz.access.roles import Action
from specviz.access.settings import the_settings
from specviz.errors import SpecvizError
from specviz.record.numbers import SIZE
from specviz.store import Library
from specviz.store.kept_values import change_value, load_value, save_value
from specviz.store.quota import trim_library
from specviz.ui.session.person import the_person
from specviz.values import Value

_KIND = "library-quota"
_DISMISSED = "quota notice dismissed"


class QuotaNotice(Value):
    """The runs deleted since the owner last dismissed the notice."""

    deleted: int = 0
    last: str = ""  # when runs were last deleted: ISO 8601, UTC
    full: bool = False  # whether the library is larger than the quota, with nothing to delete
    quota: int = 0


def keep_quota(library: Library, *, saved: str = "") -> None:
    """Delete runs if the library is larger than its quota. Do nothing without a quota.

    Args:
        saved: The id of a run that was just saved and must stay.

    Raises:
        SpecvizError: The library cannot be read or written.
    """
    quota = the_settings().quota
    if quota is None:
        return
    trimmed = trim_library(library.path, quota, keep=(saved,))
    full = trimmed.exceeds(quota)
    if trimmed.deleted or full != quota_notice(library).full:
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def add(old: QuotaNotice | None) -> QuotaNotice:
            before = old or QuotaNotice()
            return QuotaNotice(
                deleted=before.deleted + trimmed.deleted,
                last=now if trimmed.deleted else before.last,
                full=full,
                quota=quota,
            )

        change_value(_KIND, str(library.path), QuotaNotice, add)


def kept_words() -> str:
    """Return a sentence that says how long runs are kept."""
    quota = the_settings().quota
    end = "" if quota is None else f" or the library reaches {SIZE.shown(quota)}"
    return f"All finished and stopped runs on this machine are saved until you delete them{end}."


def quota_notice(library: Library) -> QuotaNotice:
    return load_value(_KIND, str(library.path), QuotaNotice) or QuotaNotice()


def show_quota_notice(library: Library) -> None:
    """Draw how many runs were deleted, until this tab or the owner dismisses it."""
    try:
        keep_quota(library)
    except SpecvizError:
        return  # the page shows the library's own error
    notice = quota_notice(library)
    if notice.full and the_person().may(Action.MANAGE):
        st.warning(
            f"The runs need more than the quota of {SIZE.shown(notice.quota)}, and all of them "
            "have a name, a tag or a note. Delete runs, or raise the quota in the settings file."
        )
    if not notice.deleted or st.session_state.get(_DISMISSED) == notice.last:
        return
    runs = "run was" if notice.deleted == 1 else "runs were"
    with st.container(
        horizontal=True, vertical_alignment="center", border=True, key="runs_quota_line"
    ):
        st.markdown(
            f"{notice.deleted:,} {runs} deleted, the oldest first, to keep the library within "
            f"{SIZE.shown(notice.quota)}. Runs with a name, a tag or a note stay.",
            width="stretch",
        )
        st.button("Dismiss", key="runs_quota_dismiss", on_click=_dismiss, args=(library, notice))


def _dismiss(library: Library, notice: QuotaNotice) -> None:
    st.session_state[_DISMISSED] = notice.last
    if the_person().may(Action.MANAGE):
        save_value(_KIND, str(library.path), QuotaNotice(full=notice.full, quota=notice.quota))
