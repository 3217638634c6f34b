"""Check a pair before loading it: whether it works, its size, and what must be downloaded.

The check reads configurations, tokenizers and the headers of local weights; it reads whole weights
only on request. It downloads no weights, and raises the same errors as ``load_pair``.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.engine.decoding.endings import check_room
from specviz.engine.loading import hardware, sources
from specviz.engine.loading.head_source import HeadSource
from specviz.engine.loading.opening import (
    OpenPair,
    Side,
    needs_transformers,
    no_progress,
    open_pair,
    quiet_for,
)
from specviz.engine.model.chat import Reader, prompt_ids
from specviz.engine.model.fingerprint import weights_sha256
from specviz.engine.model.libraries import loading_errors
from specviz.errors import PromptError
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import ModelCheck, PairCheck, PairSpec, Presence, ProgressCallback


def check_pair(
    spec: PairSpec,
    on_progress: ProgressCallback | None = None,
    *,
    present: bool = False,
    prompts: Sequence[TypedPrompt] = (),
    chat: bool = False,
) -> PairCheck:
    """Check the pair; return its models, vocabulary, memory and notices.

    Args:
        on_progress: called with each activity; an exception that it raises stops the check.
        present: whether to read the weights that are on this machine and return their digests.
        prompts: texts or conversations; the check fails if the pair cannot continue one of them.

    Raises:
        SpecvizError: the pair cannot be loaded, or cannot continue a prompt.
    """
    on_progress = on_progress or no_progress
    with quiet_for(spec):
        opened = open_pair(spec, on_progress)
        target, *drafts = [_check_model(side, on_progress) for side in opened.sides]
        if opened.head is not None:
            drafts = [_check_head(opened.head, on_progress)]
    _check_prompts(opened, prompts, chat)
    return PairCheck(
        target=target,
        draft=drafts[0] if drafts else None,
        vocabulary=opened.vocabulary,
        shared_tokens=opened.shared.count if opened.shared else None,
        memory_needed=_memory_needed(opened),
        memory_free=hardware.free_memory(opened.device),
        notices=opened.notices,
        present=_presence(opened) if present else None,
    )


def has_chat_template(spec: PairSpec) -> bool:
    """Return whether the target has a chat template.

    If the target is a Hub model, its configuration and tokenizer are downloaded.
    """
    if not needs_transformers(spec):
        return False  # a plain tokenizer has none
    chosen = sources.choose(spec)
    with quiet_for(spec):
        source = sources.open_source(chosen.target, chosen.target_name, no_progress)
        with loading_errors(source.name, "tokenizer"):
            return bool(getattr(source.read_tokenizer(), "chat_template", None))


def _check_prompts(opened: OpenPair, prompts: Sequence[TypedPrompt], chat: bool) -> None:
    target = opened.sides[0]
    reader = Reader(
        tokenizer=target.tokenizer,
        vocabulary=opened.vocabulary,
        target_name=target.source.name,
    )
    for number, prompt in enumerate(prompts, 1):
        try:
            check_room(opened.max_context, len(prompt_ids(reader, prompt, chat)))
        except PromptError as error:
            if len(prompts) == 1:
                raise
            which = f"Prompt {number} of {len(prompts)}"
            raise PromptError(f"{which}: {error.culprit}", remedy=error.remedy) from error


def _presence(opened: OpenPair) -> Presence:
    target, *drafts = [_digest(side) for side in opened.sides]
    if opened.head is not None:
        drafts = [_digest_of_head(opened.head)]
    return Presence(
        target_sha256=target,
        draft_sha256=drafts[0] if drafts else None,
        environment=hardware.describe(opened.device, opened.dtype),
    )


def _digest(side: Side) -> str | None:
    here = side.source.bytes_to_fetch(no_progress) == 0
    return weights_sha256(side.source.weight_files(), packed=side.packed_as) if here else None


def _check_model(side: Side, on_progress: ProgressCallback) -> ModelCheck:
    missing = side.source.bytes_to_fetch(on_progress)
    if not missing:
        side.source.weight_files()
    return ModelCheck(
        name=side.source.name,
        family=side.source.family,
        parameters=side.parameters,
        bytes_to_fetch=missing,
    )


def _check_head(head: HeadSource, on_progress: ProgressCallback) -> ModelCheck:
    missing = head.bytes_to_fetch(on_progress)
    facts = None if missing else head.facts()
    return ModelCheck(
        name=head.name,
        family=facts.kind if facts else "head",
        parameters=(facts.parameters or 0) if facts else 0,
        bytes_to_fetch=missing,
    )


def _digest_of_head(head: HeadSource) -> str | None:
    here = head.bytes_to_fetch(no_progress) == 0
    return weights_sha256(head.identifying_files()) if here else None


def _memory_needed(opened: OpenPair) -> int:
    head = 0
    if opened.head is not None and not opened.head.bytes_to_fetch(no_progress):
        head = (opened.head.facts().parameters or 0) * opened.dtype.itemsize
    return head + opened.needed_bytes
