"""Limits of downloads in the worker process: the Hub on or off, and the largest model.

Only the Hub knows the size of a model that is not on this machine, so this process checks the model
when the download begins. The pages check all other models before they send a request.
"""

from __future__ import annotations

import os

from specviz.access.setting_values import ModelRules
from specviz.access.settings import the_settings
from specviz.errors import ConfigError, PairError
from specviz.record.numbers import SIZE
from specviz.record.pairs import Progress


def stay_offline_if_set() -> None:
    """Make the Hub's library use only its cache if the settings turn the Hub off.

    Call this before the library is imported: it reads the environment only then.
    """
    if not _rules().hub:
        os.environ["HF_HUB_OFFLINE"] = "1"


def check_download(progress: Progress) -> None:
    """Raise PairError if a download that has just begun is not allowed."""
    if progress.activity != "downloading":
        return
    rules = _rules()
    if not rules.hub:
        raise PairError(
            "This dashboard downloads no models from the Hub.",
            remedy="Choose a model on this machine.",
        )
    if rules.largest is not None and (progress.total_bytes or 0) > rules.largest:
        raise PairError(
            f"The weights of this model are {SIZE.shown(progress.total_bytes)}; this dashboard "
            f"opens at most {SIZE.shown(rules.largest)}.",
            remedy="Choose a smaller model.",
        )


def _rules() -> ModelRules:
    """Return the rules of the settings file. If the file is not valid, the Hub counts as off.

    A page keeps the last valid settings. A process that starts later has never read valid settings.
    """
    try:
        return the_settings().models
    except ConfigError:
        return ModelRules(hub=False)
