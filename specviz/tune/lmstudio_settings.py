"""Tune's best settings for LM Studio, as a request of its Python SDK.

LM Studio drafts only with a draft model, so prompt lookup has no settings. Field names come from
the source code of the SDK.
"""

from __future__ import annotations

from typing import Any

from specviz.formats.ollama import is_gguf
from specviz.tune.findings import EngineSettings, Finding, Snippet

_KEYS = (
    "LM Studio identifies models by its own keys, which `lms ls` lists. If the two names above "
    "differ from these keys, replace the names."
)
_NOT_RUN = (
    "LM Studio runs GGUF files with llama.cpp, so the acceptance rule is llama.cpp's. The rule was "
    "not tested in LM Studio itself. "
    "The SDK may change its fields in a feature release."
)


def lmstudio_settings(finding: Finding) -> tuple[EngineSettings, ...]:
    """Return the settings for LM Studio; none without a draft model."""
    if finding.draft_model is None:
        return ()
    respond = Snippet(
        label="respond, with the Python SDK" if finding.chat else "complete, with the Python SDK",
        language="python",
        text=_code(finding, finding.draft_model),
        rule="match",
        tau=finding.tau_by("match"),
    )
    notes = [finding.rule_note("LM Studio"), _NOT_RUN, _KEYS]
    if any(is_gguf(each) for each in (finding.target, finding.draft_model)):
        notes.append("`lms import` adds a GGUF file to LM Studio's models.")
    if finding.temperature > 0 and not finding.top_k:
        notes.append(
            "specviz ran without top-k, so turn off top-k in LM Studio's settings for the model."
        )
    return (
        EngineSettings(
            engine="LM Studio",
            version="lmstudio 1.5.0",
            snippets=(respond,),
            notes=tuple(notes),
        ),
    )


def _code(finding: Finding, draft: str) -> str:
    config: dict[str, Any] = {
        "draftModel": draft,
        "speculativeDecodingNumDraftTokensExact": finding.gamma,
        "speculativeDecodingMinDraftLengthToConsider": 0,
        "speculativeDecodingMinContinueDraftingProbability": 0.0,
        "temperature": finding.temperature,
        "minPSampling": 0.0,
    }
    if finding.temperature > 0:
        config["topPSampling"] = finding.top_p
        if finding.top_k:
            config["topKSampling"] = finding.top_k
    asked = f"complete({finding.prompt!r}"
    if finding.chat:
        asked = f"respond({{'messages': {finding.messages!r}}}"
    return "\n".join(
        [
            "import lmstudio",
            "",
            f"model = lmstudio.llm({finding.target!r})",
            "config = {",
            *(f"    {name!r}: {value!r}," for name, value in config.items()),
            "}",
            f"result = model.{asked}, config=config)",
            "print(result)",
            "print(result.stats.accepted_draft_tokens_count, 'candidates accepted')",
        ]
    )
