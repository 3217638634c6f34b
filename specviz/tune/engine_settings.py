"""The best settings for other serving engines, as commands and snippets to paste.

Flag and field names come from the source code of the engine version shown with them. Expected
tokens per round follow the engine's acceptance rule. Model names are untrusted text, so they are
quoted for the shell, JSON and Python.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from specviz.formats.ollama import file_of, is_gguf
from specviz.tune.findings import (
    RATE_DIGITS,
    AcceptanceRule,
    EngineSettings,
    Finding,
    Snippet,
)
from specviz.tune.lmstudio_settings import lmstudio_settings

MAX_LOOKUP_NGRAM = 3  # the longest n-gram of specviz's prompt lookup


def engine_settings(finding: Finding) -> tuple[EngineSettings, ...]:
    draft = finding.draft and file_of(finding.draft)
    finding = replace(finding, target=file_of(finding.target), draft=draft)
    return (
        _vllm(finding),
        _sglang(finding),
        _llamacpp(finding),
        *lmstudio_settings(finding),
        _transformers(finding),
    )


# vLLM


def _vllm(finding: Finding) -> EngineSettings:
    config: dict[str, Any] = {"num_speculative_tokens": finding.gamma}
    if finding.draft_model is None:
        lookup = {"prompt_lookup_max": MAX_LOOKUP_NGRAM, "prompt_lookup_min": 1}
        snippets = [_vllm_server("serve", finding, {"method": "ngram", **config, **lookup})]
        notes = [_OTHER_LOOKUP]
    else:
        config = {"method": "draft_model", "model": finding.draft_model, **config}
        snippets = [_vllm_server("serve, greedy drafting (vLLM's default)", finding, config)]
        if finding.temperature > 0:
            sampled = {**config, "draft_sample_method": "probabilistic"}
            label = "serve, sampled candidates as in specviz"
            snippets.append(_vllm_server(label, finding, sampled, rule="lossless"))
        snippets += _vllm_synthetic(finding, config)
        notes = _vllm_notes(finding)
    return EngineSettings(
        engine="vLLM",
        version="0.32.0",
        snippets=(*snippets, _request(finding, _sampling_fields(finding))),
        notes=tuple(notes),
    )


def _vllm_server(
    label: str,
    finding: Finding,
    config: Mapping[str, Any],
    rule: AcceptanceRule | None = "match",
) -> Snippet:
    words = ["python", "-m", "vllm.entrypoints.openai.api_server", f"--model={finding.target}"]
    tau = None if rule is None else finding.tau_by(rule)
    text = shlex.join([*words, "--speculative-config", json.dumps(config)])
    return Snippet(label=label, language="shell", text=text, rule=rule, tau=tau)


def _vllm_synthetic(finding: Finding, config: Mapping[str, Any]) -> list[Snippet]:
    rates = finding.rates_by("match")
    if rates is None:
        return []
    imposed = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
    label = "load test with these acceptance rates imposed"
    return [_vllm_server(label, finding, {**config, **imposed}, rule=None)]


def _vllm_notes(finding: Finding) -> list[str]:
    notes = [finding.rule_note("vLLM")]
    if finding.temperature > 0:
        notes.append(
            'With "draft_sample_method": "probabilistic", vLLM samples candidates as specviz does, '
            "and uses more memory."
        )
        if finding.top_k or finding.top_p < 1:
            notes.append(
                'Even with "probabilistic", top-k and top-p apply only to the target, not to the '
                "draft."
            )
    notes += [
        'Both vocabularies must have the same size, unless "use_heterogeneous_vocab" is set.',
        "With imposed rates, the text is not the target's: use them for load tests only. vLLM "
        "still loads and runs the draft, so name a draft of the planned size.",
    ]
    return notes


# SGLang


def _sglang(finding: Finding) -> EngineSettings:
    """Return settings for SGLang, whose number of draft tokens is γ + 1.

    SGLang counts the target's token among the draft tokens.
    """
    words = ["python", "-m", "sglang.launch_server", f"--model-path={finding.target}"]
    words += ["--speculative-algorithm", "STANDALONE" if finding.draft_model else "NGRAM"]
    window = ["--speculative-num-draft-tokens", str(finding.gamma + 1)]
    if finding.draft_model is not None:
        words.append(f"--speculative-draft-model-path={finding.draft_model}")
        words += ["--speculative-num-steps", str(finding.gamma), "--speculative-eagle-topk", "1"]
        words += window
    else:
        words += [*window, "--speculative-ngram-max-bfs-breadth", "1"]
    serve = Snippet(
        label="serve",
        language="shell",
        text=shlex.join(words),
        rule="match",
        tau=finding.tau_by("match") if finding.draft_model else None,
    )
    return EngineSettings(
        engine="SGLang",
        version="0.5.23",
        snippets=(serve, _request(finding, _sampling_fields(finding))),
        notes=tuple(_sglang_notes(finding)),
    )


def _sglang_notes(finding: Finding) -> list[str]:
    if finding.draft_model is None:
        return [
            "SGLang's NGRAM method drafts from a cache shared by all requests, unlike the measured "
            "prompt lookup. So the tokens per round cannot be predicted."
        ]
    no_sampling = (
        "SGLang cannot sample candidates from a separate draft model: with STANDALONE, it refuses "
        "--speculative-use-rejection-sampling."
    )
    return [
        finding.rule_note("SGLang"),
        *([no_sampling] if finding.temperature > 0 else []),
        "Both models must have the same vocabulary with the same token ids.",
        "For a load test, acceptance rates by position cannot be imposed. The variable "
        "SGLANG_SIMULATE_ACC_LEN imposes a mean acceptance length.",
    ]


# llama.cpp


def _llamacpp(finding: Finding) -> EngineSettings:
    snippets = [_gguf(finding.target, "target.gguf")]
    server = ["llama-server", "-m", _gguf_name(finding.target, "target.gguf")]
    if finding.draft_model is None:
        size = ["--spec-ngram-simple-size-n", str(MAX_LOOKUP_NGRAM)]
        size += ["--spec-ngram-simple-size-m", str(finding.gamma)]
        server += ["--spec-type", "ngram-simple", *size]
    else:
        snippets.append(_gguf(finding.draft_model, "draft.gguf"))
        server += ["-md", _gguf_name(finding.draft_model, "draft.gguf")]
        server += ["--spec-type", "draft-simple", "--spec-draft-n-max", str(finding.gamma)]
        server += ["--spec-draft-n-min", "0", "--spec-draft-p-min", "0"]
    server += _llamacpp_sampling(finding)
    found = [each for each in snippets if each is not None]
    tau = None if finding.draft_model is None else finding.tau_by("match")
    found.append(_llamacpp_server("serve", server, rule="match", tau=tau))
    found += [_request(finding, {})] if finding.chat else []
    rates = finding.rates_by("match")
    if finding.draft_model is not None and rates is not None:
        imposed = ["--spec-synth-rates", ",".join(f"{each:.{RATE_DIGITS}f}" for each in rates)]
        label = "load test with these acceptance rates imposed"
        found.append(_llamacpp_server(label, [*server, *imposed]))
    return EngineSettings(
        engine="llama.cpp",
        version="llama-cpp-python 0.3.36",
        snippets=tuple(found),
        notes=tuple(_llamacpp_notes(finding)),
    )


def _llamacpp_server(
    label: str,
    words: Sequence[str],
    *,
    rule: AcceptanceRule | None = None,
    tau: float | None = None,
) -> Snippet:
    return Snippet(label=label, language="shell", text=shlex.join(words), rule=rule, tau=tau)


def _gguf_name(model: str, file: str) -> str:
    return model if is_gguf(model) else file


def _gguf(model: str, file: str) -> Snippet | None:
    if is_gguf(model):
        return None
    words = ["python", "convert_hf_to_gguf.py", "--outfile", file, "--", model]
    return Snippet(label=f"convert to {file}, once", language="shell", text=shlex.join(words))


def _llamacpp_sampling(finding: Finding) -> list[str]:
    """Return options for specviz's sampler order, which is not llama.cpp's default order."""
    return [
        "--temp",
        str(finding.temperature),
        "--top-k",
        str(finding.top_k),
        "--top-p",
        str(finding.top_p),
        "--samplers",
        "temperature;top_k;top_p",
    ]


def _llamacpp_notes(finding: Finding) -> list[str]:
    convert = (
        "llama.cpp reads GGUF files. To convert a model on the Hub, add --remote. Quantized models "
        "write slightly different text."
    )
    if finding.draft_model is None:
        return [
            f"llama.cpp looks up n-grams of exactly {MAX_LOOKUP_NGRAM} tokens. specviz also looks "
            "up shorter ones, so llama.cpp finds a match less often than specviz.",
            convert,
        ]
    return [
        finding.rule_note("llama.cpp"),
        "Older versions of llama.cpp name the flags --draft-max and --draft-min. The version for "
        "these settings refuses these names.",
        convert,
        "With imposed rates, the text is not the target's: use them for load tests only.",
    ]


# transformers


def _transformers(finding: Finding) -> EngineSettings:
    drafted = finding.draft_model is not None
    fields = _assistant_fields(finding) if drafted else _lookup_fields(finding)
    owner = "the draft" if drafted else "the target"
    rule: AcceptanceRule = "lossless" if drafted else "match"
    return EngineSettings(
        engine="transformers",
        version="5.23.0",
        snippets=(
            Snippet(
                label="generate",
                language="python",
                text=_transformers_code(finding),
                rule=rule,
                tau=finding.tau_by(rule),
            ),
            Snippet(
                label=f"the same settings, for generation_config.json of {owner}",
                language="json",
                text=json.dumps(fields, indent=2),
            ),
        ),
        notes=tuple(_transformers_notes(finding)),
    )


def _assistant_fields(finding: Finding) -> dict[str, Any]:
    return {
        "num_assistant_tokens": finding.gamma,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }


def _lookup_fields(finding: Finding) -> dict[str, Any]:
    return {
        "prompt_lookup_num_tokens": finding.gamma,
        "max_matching_ngram_size": MAX_LOOKUP_NGRAM,
    }


def _transformers_code(finding: Finding) -> str:
    name, file = _folder_and_file(finding.target)
    lines = [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f"name = {name!r}",
        f"tokenizer = AutoTokenizer.from_pretrained(name{file})",
        f"target = AutoModelForCausalLM.from_pretrained(name{file})",
    ]
    options = _sampling_options(finding)
    if finding.draft_model is None:
        options = _lookup_fields(finding) | options
    else:
        name, file = _folder_and_file(finding.draft_model)
        lines += [
            f"draft = AutoModelForCausalLM.from_pretrained({name!r}{file})",
            f"draft.generation_config.update({_arguments(_assistant_fields(finding))})",
        ]
    drafter = "" if finding.draft_model is None else "assistant_model=draft, "
    return "\n".join(
        [
            *lines,
            *_transformers_inputs(finding),
            f"output = target.generate(**inputs, {drafter}{_arguments(options)})",
            "print(tokenizer.decode(output[0], skip_special_tokens=True))",
        ]
    )


def _folder_and_file(model: str) -> tuple[str, str]:
    """Return the model argument of ``from_pretrained``, and the code of a further argument.

    For a GGUF file, these are its folder and an argument that names the file. For other models,
    they are the model's name or folder, and "".
    """
    if not is_gguf(model):
        return model, ""
    folder, file = os.path.split(model)
    return folder or ".", f", gguf_file={file!r}"


def _transformers_inputs(finding: Finding) -> list[str]:
    if not finding.chat:
        return [f'inputs = tokenizer({finding.prompt!r}, return_tensors="pt")']
    return [
        f"messages = {finding.messages!r}",
        "inputs = tokenizer.apply_chat_template(",
        '    messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"',
        ")",
    ]


def _sampling_options(finding: Finding) -> dict[str, Any]:
    """Return options of ``generate``; top_k 0 means off, as in specviz."""
    options: dict[str, Any] = {"max_new_tokens": 128}
    if finding.temperature == 0:
        return options | {"do_sample": False}
    sampling = {"temperature": finding.temperature, "top_k": finding.top_k, "top_p": finding.top_p}
    return options | {"do_sample": True} | sampling


def _arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _transformers_notes(finding: Finding) -> list[str]:
    notes = ["transformers speculates only with batch size 1."]
    if any(_folder_and_file(each)[1] for each in (finding.target, finding.draft_model or "")):
        notes.append("To load GGUF files, transformers needs the packages gguf and accelerate.")
    if finding.draft_model is None:
        return [_OTHER_LOOKUP, *notes]
    return [
        "transformers uses specviz's acceptance rule. The draft samples with the target's "
        "temperature, top-k and top-p.",
        "By default, drafting stops at a token with less than 40 % confidence; "
        "assistant_confidence_threshold 0 turns that off.",
        *notes,
    ]


# Shared by several engines

_OTHER_LOOKUP = (
    "If an n-gram occurs several times, this engine may copy from a different occurrence than "
    "specviz, so the tokens per round may differ."
)


def _sampling_fields(finding: Finding) -> dict[str, Any]:
    """Return the sampling fields of an OpenAI request, plus ``top_k``, where -1 means off."""
    fields: dict[str, Any] = {"temperature": finding.temperature}
    if finding.temperature > 0:
        fields |= {"top_p": finding.top_p, "top_k": finding.top_k or -1}
    return fields


def _request(finding: Finding, fields: Mapping[str, Any]) -> Snippet:
    """Return fields to add to an OpenAI request; for a chat, return a request with messages."""
    if not finding.chat:
        return Snippet(label="in each request", language="json", text=json.dumps(fields))
    text = json.dumps({"messages": finding.messages, **fields}, ensure_ascii=False, indent=2)
    return Snippet(label="in a request to /v1/chat/completions", language="json", text=text)
