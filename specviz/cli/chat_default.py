"""Decide whether to use a chat template if neither --chat nor --no-chat is given.

By default, a chat template is used if the target has a chat template.
"""

from __future__ import annotations

import contextlib

from specviz.errors import SpecvizError
from specviz.local_models.chat_templates import target_has_chat
from specviz.record.pairs import PairSpec


def uses_chat(asked: bool | None, spec: PairSpec) -> bool:
    """Return whether prompts go into the target's chat template.

    Args:
        asked: True for --chat, False for --no-chat, None if neither is given. In the last case, the
            configuration files of a Hub model may be downloaded to look for a template. An error
            of this download is ignored here: loading the model raises it again.
    """
    if asked is not None:
        return asked
    if spec.served:
        return False
    known = target_has_chat(spec)
    if known is None:
        from specviz.engine.loading.checkup import has_chat_template

        with contextlib.suppress(SpecvizError):
            known = has_chat_template(spec)
    return bool(known)
