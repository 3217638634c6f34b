"""The default of --chat: use the target's chat template if there is one."""

from __future__ import annotations

import contextlib

from specviz.errors import SpecvizError
from specviz.local_models.chat_templates import target_has_chat
from specviz.record.pairs import PairSpec


def uses_chat(asked: bool | None, spec: PairSpec) -> bool:
    """Return whether prompts go into the target's chat template.

    Args:
        asked: Whether --chat or --no-chat is given; None without either. Then the small files of a
            Hub model are downloaded to look for a template. Errors are left to the loading.
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
