"""Settings for other engines: every snippet parses and has the found settings."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz import ASSETS
from specviz.errors import ConfigError
from specviz.record.conversations import Message
from specviz.tune.engine_settings import engine_settings
from specviz.tune.findings import AcceptanceRule, EngineSettings, Finding, Snippet, tidy_rates
from tests.local_models.conftest import DIGEST, write_ollama

BY_RULE: Mapping[AcceptanceRule, tuple[float, ...]] = {
    "lossless": (0.8, 0.6, 0.5),
    "match": (0.7, 0.5, 0.4),
}
HOSTILE = (
    "it's",
    'say "hi"',
    "two words",
    "line\nend",
    "-dash",
    "--model=other",
    "$(touch x); `y` && z",
    "back\\slash",
    "a\u202eb",
    "ünïcode 猫",
    "{'a': 1}",
    "%s {0}",
    "",
)


def finding(**fields: Any) -> Finding:
    values: dict[str, Any] = {
        "target": "org/target",
        "draft": "org/draft",
        "drafter": "model",
        "prompt": "Tom had a ball",
        "gamma": 3,
        "temperature": 0.7,
        "tau": 2.9,
        "cumulative": BY_RULE,
    }
    return Finding(**(values | fields))


def lookup(**fields: Any) -> Finding:
    return finding(draft=None, drafter="prompt-lookup", **fields)


def of(engine: str, found: Finding) -> EngineSettings:
    return next(each for each in engine_settings(found) if each.engine == engine)


def test_a_model_of_ollama_is_named_by_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_ollama(tmp_path)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    found = lookup(target="ollama:story:1m")
    for settings in engine_settings(found):
        texts = " ".join(each.text for each in settings.snippets)
        assert "ollama:" not in texts
        assert "convert_hf_to_gguf" not in texts
    assert f"blobs/sha256-{DIGEST}" in " ".join(words("llama.cpp", "serve", found))
    assert "gguf_file='sha256-" in snippet("transformers", "generate", found).text


def snippet(engine: str, start: str, found: Finding) -> Snippet:
    """Return the engine's first snippet with this prefix of its label."""
    return next(each for each in of(engine, found).snippets if each.label.startswith(start))


def words(engine: str, start: str, found: Finding) -> list[str]:
    return shlex.split(snippet(engine, start, found).text)


def after(flag: str, given_words: list[str]) -> str:
    return given_words[given_words.index(flag) + 1]


def vllm_config(start: str, found: Finding) -> dict[str, Any]:
    return json.loads(after("--speculative-config", words("vLLM", start, found)))


# vLLM


def test_vllm_drafts_greedily_by_default() -> None:
    made = words("vLLM", "serve, greedy", finding())
    assert made[:3] == ["python", "-m", "vllm.entrypoints.openai.api_server"]
    assert made[3] == "--model=org/target"
    assert vllm_config("serve, greedy", finding()) == {
        "method": "draft_model",
        "model": "org/draft",
        "num_speculative_tokens": 3,
    }
    serve = snippet("vLLM", "serve, greedy", finding())
    assert (serve.rule, serve.tau) == ("match", pytest.approx(2.6))


def test_vllm_can_sample_candidates() -> None:
    drawn = snippet("vLLM", "serve, sampled", finding())
    config = vllm_config("serve, sampled", finding())
    assert config["draft_sample_method"] == "probabilistic"
    assert (drawn.rule, drawn.tau) == ("lossless", pytest.approx(2.9))
    assert "drawn" not in " ".join(
        each.label for each in of("vLLM", finding(temperature=0.0)).snippets
    )


def test_vllm_imposes_the_rates_of_its_rule() -> None:
    config = vllm_config("load test", finding())
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_rates"] == [0.7, 0.5, 0.4]
    assert len(config["synthetic_acceptance_rates"]) == config["num_speculative_tokens"]
    assert snippet("vLLM", "load test", finding()).rule is None


def test_vllm_lookup() -> None:
    assert vllm_config("serve", lookup()) == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_max": 3,
        "prompt_lookup_min": 1,
    }


@pytest.mark.parametrize("engine", ["vLLM", "llama.cpp"])
@pytest.mark.parametrize("found", [finding(cumulative={}), lookup(cumulative={})])
def test_imposes_only_known_rates(engine: str, found: Finding) -> None:
    made = of(engine, found).snippets
    assert not [each for each in made if each.label.startswith("load test")]
    assert all(each.tau is None for each in made)


# SGLang


def test_sglang_draft_model() -> None:
    made = words("SGLang", "serve", finding())
    assert made == [
        "python", "-m", "sglang.launch_server", "--model-path=org/target",
        "--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path=org/draft",
        "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
        "--speculative-num-draft-tokens", "4",
    ]  # fmt: skip
    assert snippet("SGLang", "serve", finding()).tau == pytest.approx(2.6)


def test_sglang_has_no_expectation_for_its_cache() -> None:
    made = words("SGLang", "serve", lookup())
    assert after("--speculative-algorithm", made) == "NGRAM"
    assert after("--speculative-num-draft-tokens", made) == "4"
    assert snippet("SGLang", "serve", lookup()).tau is None


# llama.cpp


def test_llamacpp_draft_model() -> None:
    made = words("llama.cpp", "serve", finding(temperature=0.7, top_k=40, top_p=0.9))
    assert made == [
        "llama-server", "-m", "target.gguf", "-md", "draft.gguf", "--spec-type", "draft-simple",
        "--spec-draft-n-max", "3", "--spec-draft-n-min", "0", "--spec-draft-p-min", "0",
        "--temp", "0.7", "--top-k", "40", "--top-p", "0.9",
        "--samplers", "temperature;top_k;top_p",
    ]  # fmt: skip
    serve = snippet("llama.cpp", "serve", finding())
    assert (serve.rule, serve.tau) == ("match", pytest.approx(2.6))


def test_llamacpp_imposes_rates() -> None:
    made = words("llama.cpp", "load test", finding())
    assert after("--spec-synth-rates", made) == "0.7000,0.5000,0.4000"
    assert snippet("llama.cpp", "load test", finding()).tau is None


def test_llamacpp_converts_models_to_gguf() -> None:
    made = words("llama.cpp", "convert to draft.gguf", finding(target="big.gguf"))
    assert made[-4:] == ["--outfile", "draft.gguf", "--", "org/draft"]
    assert after("-m", words("llama.cpp", "serve", finding(target="big.gguf"))) == "big.gguf"
    labels = [each.label for each in of("llama.cpp", finding(target="big.gguf")).snippets]
    assert not [label for label in labels if "target.gguf" in label]


def test_llamacpp_lookup() -> None:
    made = words("llama.cpp", "serve", lookup())
    assert after("--spec-type", made) == "ngram-simple"
    assert after("--spec-ngram-simple-size-n", made) == "3"
    assert after("--spec-ngram-simple-size-m", made) == "3"
    assert "-md" not in made


# transformers


def test_transformers_accepts_the_config() -> None:
    from transformers import GenerationConfig

    read = json.loads(snippet("transformers", "the same", finding()).text)
    assert set(read) <= set(GenerationConfig().to_dict())
    config = GenerationConfig.from_dict(read)
    assert config.num_assistant_tokens == 3
    assert config.num_assistant_tokens_schedule == "constant"
    assert config.assistant_confidence_threshold == 0.0
    config.validate()
    read = json.loads(snippet("transformers", "the same", lookup()).text)
    config = GenerationConfig.from_dict(read)
    assert (config.prompt_lookup_num_tokens, config.max_matching_ngram_size) == (3, 3)


@pytest.mark.parametrize("make", [finding, lookup], ids=["draft model", "prompt lookup"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_transformers_runs_the_snippet(
    make: Any, temperature: float, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {"target": str(ASSETS / "pairs" / "tinystories" / "target")}
    if make is finding:
        folders["draft"] = str(ASSETS / "pairs" / "tinystories" / "draft")
    code = snippet("transformers", "generate", make(temperature=temperature, **folders)).text
    names: dict[str, Any] = {}
    exec(code.replace("max_new_tokens=128", "max_new_tokens=12"), names)
    prompt = names["inputs"]["input_ids"]
    assert names["output"].shape[1] - prompt.shape[1] == 12
    assert capsys.readouterr().out.startswith("Tom had a ball")
    if temperature == 0:
        alone = names["target"].generate(**names["inputs"], do_sample=False, max_new_tokens=12)
        assert alone.tolist() == names["output"].tolist()


@pytest.mark.parametrize("prompt", HOSTILE)
def test_chat_runs_get_a_request_to_the_chat_endpoint(prompt: str) -> None:
    before = (Message(role="user", content="One?"), Message(role="assistant", content="Two."))
    chat = finding(prompt=prompt, chat=True, before=before)
    messages = [{"role": each.role, "content": each.content} for each in before]
    messages.append({"role": "user", "content": prompt})
    for engine in ("vLLM", "SGLang", "llama.cpp"):
        request = snippet(engine, "in a request to /v1/chat/completions", chat)
        assert json.loads(request.text)["messages"] == messages
        assert not any("chat" in each.label for each in of(engine, finding(prompt=prompt)).snippets)
    code = snippet("transformers", "generate", chat).text
    (sent,) = [
        ast.literal_eval(each.value)
        for each in ast.parse(code).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "messages"
    ]
    assert sent == messages


def test_transformers_opens_gguf_files() -> None:
    found = finding(target="folder/big.gguf", draft="small.gguf")
    code = snippet("transformers", "generate", found).text
    assert "name = 'folder'" in code
    assert code.count("from_pretrained(name, gguf_file='big.gguf')") == 2
    assert "from_pretrained('.', gguf_file='small.gguf')" in code
    assert any("accelerate" in note for note in of("transformers", found).notes)
    assert not any("accelerate" in note for note in of("transformers", finding()).notes)


# Names, rates, notes


def _python_names(code: str) -> list[str]:
    """Return the loaded model names and the value of ``name``."""
    return [
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_quoted(name: str) -> None:
    found = finding(target=name, draft=f"{name}-draft")
    draft = f"{name}-draft"
    assert f"--model={name}" in words("vLLM", "serve", found)
    assert vllm_config("serve", found)["model"] == draft
    assert vllm_config("load test", found)["model"] == draft
    made = words("SGLang", "serve", found)
    assert f"--model-path={name}" in made
    assert f"--speculative-draft-model-path={draft}" in made
    assert words("llama.cpp", "convert to target", found)[-1] == name
    assert words("llama.cpp", "convert to draft", found)[-1] == draft
    named = _python_names(snippet("transformers", "generate", found).text)
    assert {name, draft} <= set(named)


def test_hostile_gguf_names_are_quoted() -> None:
    made = words("llama.cpp", "serve", finding(target="it's -a.gguf", draft="\n.gguf"))
    assert after("-m", made) == "it's -a.gguf"
    assert after("-md", made) == "\n.gguf"


@given(
    target=st.text(st.characters(exclude_characters="\0")),
    draft=st.text(st.characters(exclude_characters="\0")),
    temperature=st.floats(0, 100),
    top_k=st.integers(0, 1000),
    top_p=st.floats(0.01, 1),
)
def test_every_snippet_parses(
    target: str, draft: str, temperature: float, top_k: int, top_p: float
) -> None:
    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    for found in (
        finding(target=target, draft=draft, **sampling),
        lookup(target=target, **sampling),
    ):
        for settings in engine_settings(found):
            for each in settings.snippets:
                _parse(each)
            assert all(note.endswith(".") and "\n" not in note for note in settings.notes)
            assert len(set(settings.notes)) == len(settings.notes) > 0


def _parse(each: Snippet) -> None:
    match each.language:
        case "json":
            json.loads(each.text)
        case "python":
            ast.parse(each.text)
        case "shell":
            made = shlex.split(each.text)
            assert shlex.join(made) == each.text
            if "--temp" in made:
                assert float(after("--temp", made)) >= 0


@given(rates=st.lists(st.floats(-1, 2), max_size=64))
def test_rates_are_non_increasing_within_0_and_1(rates: list[float]) -> None:
    tidy = tidy_rates(rates)
    assert len(tidy) == len(rates)
    assert all(0.0 <= rate <= 1.0 for rate in tidy)
    assert tidy == sorted(tidy, reverse=True)


def test_rates_are_rounded() -> None:
    assert tidy_rates((0.123456, 0.12346, 1 / 3, 0.1)) == [0.1235, 0.1235, 0.1235, 0.1]


@pytest.mark.parametrize(
    ("sampling", "fields"),
    [
        ({"temperature": 0.7}, {"temperature": 0.7, "top_p": 1.0, "top_k": -1}),
        (
            {"temperature": 0.7, "top_k": 40, "top_p": 0.9},
            {"temperature": 0.7, "top_p": 0.9, "top_k": 40},
        ),
        ({"temperature": 0.0}, {"temperature": 0.0}),
    ],
)
@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
def test_request_has_the_sampling_settings(
    engine: str, sampling: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert json.loads(snippet(engine, "in each", finding(**sampling)).text) == fields


@pytest.mark.parametrize("engine", ["vLLM", "SGLang", "llama.cpp"])
def test_notes_mention_the_engines_rule(engine: str) -> None:
    first = of(engine, finding()).notes[0]
    assert "expect 2.60 tokens per round; specviz has 2.90." in first
    assert "per round may differ" in of(engine, finding(cumulative={})).notes[0]
    assert "at temperature 0 this equals" in of(engine, finding(temperature=0.0)).notes[0]


def test_vllm_note_says_filters_apply_only_to_the_target() -> None:
    assert "apply only to the target" in " ".join(of("vLLM", finding(top_k=5)).notes)
    assert "top-k" not in " ".join(of("vLLM", finding()).notes)


def test_both_rules_are_equal_for_lookup() -> None:
    only = lookup(cumulative={"lossless": (0.5, 0.25, 0.125)})
    assert snippet("vLLM", "serve", only).tau == snippet("transformers", "generate", only).tau
    assert only.tau_by("match") == 1.875
    assert finding(cumulative={"lossless": (0.5, 0.25, 0.125)}).tau_by("match") is None


@pytest.mark.parametrize(
    "fields",
    [{"draft": None}, {"target": "a\0b"}, {"draft": "\0"}],
    ids=["none", "target", "draft"],
)
def test_rejects_invalid_findings(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        finding(**fields)
    assert refused.value.remedy
