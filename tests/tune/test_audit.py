"""The audit on a small pair: no alarm without a bug, an alarm with one, valid at any time."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from specviz.engine import Pair, speculate
from specviz.errors import ConfigError, PairError
from specviz.record.breaks import BREAKS
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig
from specviz.theory.evalues import Emitted, EmittedDistributionTest
from specviz.tune import audit as audits
from specviz.tune import greedy
from specviz.tune.audit import Audit, AuditReport, sentences
from specviz.tune.greedy import check_greedy, plain_text
from specviz.tune.short_runs import audit_settings, contexts, fresh_logits
from tests.engine.models import noisy_copy, pair_of, tiny_model

SETTINGS = RunConfig(temperature=1.0, gamma=3, ignore_eos=True)
GREEDY = replace(SETTINGS, temperature=0.0)
CAUGHT = 600  # runs within which every biased bug is detected


@cache
def tiny_pair(context: int | None = None) -> Pair:
    shape: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    target = tiny_model("llama", sigma=0.5, **shape)
    return pair_of(target, noisy_copy(target, 0.25), step="lean", max_context=context)


def audit(broken: str | None = None, runs: int = 40, **changes: Any) -> Audit:
    settings: dict[str, Any] = {"config": SETTINGS, "broken": broken, "runs": runs} | changes
    return Audit(**settings)


def last(asked: Audit, pair: Pair | None = None) -> AuditReport:
    *_, report = asked.tested(pair or tiny_pair())
    return report


def until_alarm(asked: Audit) -> AuditReport:
    report = None
    for report in asked.tested(tiny_pair()):
        if report.alarm:
            return report
    assert report is not None
    return report


SOUND: tuple[dict[str, Any], ...] = (
    {}, {"top_p": 0.8}, {"rule": "coupled"}, {"rule": "block"},
)  # fmt: skip
ALSO_SOUND: tuple[dict[str, Any], ...] = (
    {"top_k": 20}, {"temperature": 0.4}, {"branching": (3, 2, 1)},
    {"dynamic_tree": (3, 8)}, {"dynamic_tree": (3, 8), "rule": "match"},
)  # fmt: skip
# The audit takes hundreds of runs to detect these; test_audit_power.py measures their bias.
SMALL_BIASES = ("reused-uniform", "bonus-from-draft")


@pytest.mark.parametrize(
    "changes",
    [*SOUND, *(pytest.param(each, marks=pytest.mark.thorough) for each in ALSO_SOUND)],
    ids=str,
)
def test_no_alarm_without_a_bug(changes: dict[str, Any]) -> None:
    report = last(audit(config=replace(SETTINGS, **changes), runs=120))
    assert not report.alarm
    assert report.p_value > 0.01
    assert report.first_tokens > 360
    output = sentences(report)
    assert output[0].startswith(f"No deviation found in {report.first_tokens:,} tokens")
    means_something = changes.keys() <= {"top_k", "top_p", "temperature"} or "coupled" in str(
        changes
    )
    assert any("of the tested candidates" in each for each in output) == means_something


def test_audits_prompt_lookup_without_a_draft() -> None:
    lonely = replace(tiny_pair(), draft=None, draft_weights=None)
    report = last(audit(config=replace(SETTINGS, drafter="prompt-lookup")), lonely)
    assert report.passes
    assert report.bonus > 40


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each.name, marks=pytest.mark.thorough if each.name in SMALL_BIASES else ())
        for each in BREAKS.values()
        if each.biased
    ],
)
def test_detects_bugs_that_change_the_distribution(name: str) -> None:
    report = until_alarm(audit(name, CAUGHT))
    assert report.alarm
    assert report.alarm_at == report.runs  # reported at once
    assert report.p_value <= report.level
    verdict, *others = sentences(report)
    assert verdict.startswith(f"Alarm at run {report.runs}: ")
    assert others[0].startswith(f"The loop is broken on purpose ({name}). {BREAKS[name].does} ")
    assert others[0].endswith(" The bug affects exactness and acceptance.") == (
        BREAKS[name].symptom == "both"
    )


@pytest.mark.parametrize("name", [each.name for each in BREAKS.values() if not each.biased])
def test_ignores_bugs_that_keep_the_distribution(name: str) -> None:
    report = last(audit(name, 150))
    assert not report.alarm
    assert "No deviation" in sentences(report)[0]


def test_reports_grow_and_keep_the_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "_PAUSE", 0.0)
    reports = list(audit("untrimmed-target-cache", 80).tested(tiny_pair()))
    assert [each.runs for each in reports] == [*range(1, 81), 80]
    for before, after in pairwise(reports):
        assert before.first_tokens <= after.first_tokens
        assert before.e_value <= after.e_value
        assert before.p_value >= after.p_value
        assert not before.alarm or after.alarm_at == before.alarm_at
    first = next(each for each in reports if each.alarm)
    assert first.alarm_at == first.runs < 80
    for each in reports:
        assert each.first_tokens == each.accepted + each.recovered + each.bonus
        assert each.greedy is None


def test_reports_are_throttled_except_the_alarm() -> None:
    reports = list(audit("untrimmed-target-cache", 60).tested(tiny_pair()))
    assert sum(each.runs == each.alarm_at for each in reports) == 1
    assert len(reports) < 30


def test_tests_every_token_of_three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions come from fresh passes, and places are known before the token."""
    seen: list[Emitted] = []
    monkeypatch.setattr(EmittedDistributionTest, "observe", lambda _, emitted: seen.append(emitted))
    last(audit(runs=7, seed=5))
    settings = audit_settings(SETTINGS, 3 * (SETTINGS.gamma + 1))
    for number, emitted in enumerate(seen):
        context = contexts(tiny_pair(), settings)[number]
        config = replace(settings, seed=5 * 1_000_000 + number)
        rounds = list(islice(speculate(tiny_pair(), context, config), 3))
        assert list(emitted.tokens) == [token for each in rounds for token in each.emitted]
        expected = fresh_logits(tiny_pair(), tiny_pair().target_step, context, emitted.tokens)
        assert emitted.target == pytest.approx(expected.softmax(-1).numpy(), abs=1e-6)
        assert list(emitted.places) == places(rounds)
    assert len(seen) == 7


def places(rounds: Sequence[Any]) -> list[str]:
    found: list[str] = []
    for before, entry in zip([None, *rounds], rounds, strict=False):
        after = before is not None and before.num_accepted < before.num_drafted
        own = ["after a rejection" if after else "start"]
        own += ["after an acceptance"] * (entry.num_accepted)
        if entry.num_accepted == entry.num_drafted:
            own[-1] = "bonus"
        found += own
    return found


def test_one_wrong_token_at_temperature_0_raises_an_alarm() -> None:
    right = last(audit(config=GREEDY))
    assert (right.e_value, right.p_value, right.alarm) == (0.0, 1.0, False)
    assert "a single wrong token" in sentences(right)[1]
    wrong = until_alarm(audit("untrimmed-target-cache", config=GREEDY))
    assert (wrong.e_value, wrong.p_value) == (math.inf, 0.0)
    assert "One of the tokens has probability 0" in sentences(wrong)[0]


def test_detectable_bias_shrinks_with_more_runs() -> None:
    first, second = (last(audit(runs=runs)) for runs in (30, 120))
    few, many = first.detectable, second.detectable
    assert few is not None
    assert many is not None
    assert 0.01 < many.bias < few.bias < 0.3
    (power,) = [each for each in sentences(first) if "would be expected" in each]
    assert f" {100 * few.bias:.1f} percentage points" in power
    assert few.tokens in power


# -- against generate


@pytest.mark.parametrize(
    "name",
    [
        None, "untrimmed-draft-cache",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("match", "reused-uniform")),
    ],
)  # fmt: skip
def test_greedy_text_equals_the_target_alone(name: str | None) -> None:
    found = check_greedy(tiny_pair(), SETTINGS, name)
    assert (found.equal, found.passes, found.prompts, found.tokens) == (True, True, 5, 240)


def test_reports_the_position_of_a_greedy_bug() -> None:
    *_, report = audit("untrimmed-target-cache", 1).find(tiny_pair())
    assert report.greedy is not None
    found = report.greedy.divergence
    assert found is not None
    assert found.word == "a bug"
    assert found.token_id != found.expected_id
    assert not report.passes
    verdict, *others = sentences(report)
    assert verdict.startswith("A bug: at temperature 0")
    assert any(f"At temperature 0, token {found.place + 1} of a text is" in each for each in others)


def other_text(number: int, place: int, rank: int) -> Any:
    """Return the target's text with another token at one place of one prompt."""

    def text(pair: Pair, context: Sequence[int], num_tokens: int) -> list[int]:
        own = plain_text(pair, context, num_tokens)
        if context == prompts()[number]:
            logits = fresh_logits(pair, pair.target_step, context, own[: place + 1])[-1]
            own[place] = int(logits.argsort(descending=True)[rank])
        return own

    return text


@cache
def prompts() -> list[tuple[int, ...]]:
    count = len(read_presets())
    settings = audit_settings(SETTINGS, greedy.GREEDY_TOKENS)
    return list(contexts(tiny_pair(), settings)[-count :: count // 5])


@cache
def greedy_text(number: int) -> list[int]:
    return plain_text(tiny_pair(), prompts()[number], greedy.GREEDY_TOKENS)


def gap(number: int, place: int) -> float:
    own = greedy_text(number)[: place + 1]
    logits = fresh_logits(tiny_pair(), tiny_pair().target_step, prompts()[number], own)[-1]
    best, second = logits.topk(2).values.tolist()
    return best - second


@pytest.mark.parametrize(("dtype", "word"), [("float32", "a bug"), ("bfloat16", "near tie")])
def test_near_tie_limit_depends_on_the_dtype(
    dtype: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [(number, place) for number in range(5) for place in range(0, 48, 6)]
    number, place = next(each for each in places if 0.01 < gap(*each) < 0.4)
    environment = replace(tiny_pair().environment, dtype=dtype)
    pair = replace(tiny_pair(), environment=environment)
    monkeypatch.setattr(greedy, "plain_text", other_text(number, place, 1))
    check = check_greedy(pair, SETTINGS, None)
    found = check.divergence
    assert found is not None
    assert (found.prompt, found.place, found.word) == (number, place, word)
    assert found.margin == pytest.approx(gap(number, place), abs=1e-4)
    assert check.passes == (word == "near tie")
    monkeypatch.setattr(greedy, "plain_text", other_text(number, place, 200))
    found = check_greedy(pair, SETTINGS, None).divergence
    assert found is not None
    assert found.word == "a bug"  # whatever the margin of the two best


def test_generate_ignores_the_models_generation_config() -> None:
    pair = tiny_pair()
    own = pair.target.generation_config
    expected = plain_text(pair, prompts()[0], 20)
    penalised = type(own)(repetition_penalty=5.0, eos_token_id=expected[3])
    pair.target.generation_config = penalised
    try:
        assert plain_text(pair, prompts()[0], 20) == expected
        assert pair.target.generation_config is penalised
    finally:
        pair.target.generation_config = own


# -- settings


def test_cuts_prompts_to_the_context() -> None:
    settings = audit_settings(SETTINGS, 12)
    lengths = {len(each) for each in contexts(tiny_pair(), settings)}
    assert max(lengths) == 48
    assert len(lengths) > 20
    narrow = contexts(tiny_pair(context=32), settings)
    assert max(len(each) for each in narrow) == 20
    with pytest.raises(ConfigError, match="Draft fewer candidates"):
        contexts(tiny_pair(context=12), settings)
    assert last(audit(runs=3), tiny_pair(context=32)).first_tokens > 8


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"runs": 0}, "runs is 0. Give a whole number from 1 to 1,000,000."),
        ({"seed": -1}, "seed is -1."),
        ({"broken": "gremlin"}, "'gremlin' is not a bug. Choose one of recovered-from-target, "),
        ({"config": RunConfig(rule="over-accept", epsilon=0.1)}, "rule=over-accept is not"),
        (
            {"config": RunConfig(drafter="prompt-lookup"), "broken": "match"},
            "Bugs can be injected only into runs in which the draft model drafts one chain",
        ),
    ],
)
def test_rejects_invalid_audits(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        audit(**changes)
    assert str(caught.value).startswith(expected)


def test_a_bug_needs_a_draft_model() -> None:
    with pytest.raises(PairError, match="no draft model"):
        last(audit("match"), replace(tiny_pair(), draft=None, draft_weights=None))


def test_can_be_pickled() -> None:
    asked = audit("match", 2)
    assert pickle.loads(pickle.dumps(asked)) == asked
    *_, report = asked.find(tiny_pair())
    assert pickle.loads(pickle.dumps(report)) == report


def test_import_does_not_load_torch() -> None:
    code = "import sys, specviz.tune.audit; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("changes", [{"temperature": 0.0}, {"top_k": 5}, {"top_p": 0.8}])
def test_tokens_within_the_tolerance_are_possible(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits within the tolerance of a possible token; with top-p also the next one."""
    seen: list[Emitted] = []
    monkeypatch.setattr(EmittedDistributionTest, "observe", lambda _, emitted: seen.append(emitted))
    coarse = replace(tiny_pair().environment, dtype="bfloat16")
    config = replace(SETTINGS, **changes)
    last(audit(config=config, runs=4), replace(tiny_pair(), environment=coarse))
    prompts_of_runs = contexts(tiny_pair(), audit_settings(config, 12))
    more = 0
    for context, emitted in zip(prompts_of_runs, seen, strict=False):
        logits = fresh_logits(tiny_pair(), tiny_pair().target_step, context, emitted.tokens)
        assert emitted.possible is not None
        for row, probs, possible in zip(
            logits.numpy(), np.asarray(emitted.target), emitted.possible, strict=True
        ):
            ranked = np.sort(row)[::-1]
            kept = int((probs > 0).sum())
            lowest = ranked[kept if "top_p" in changes else kept - 1]
            assert possible.tolist() == (row >= lowest - np.float32(0.5)).tolist()
            more += int(possible.sum()) - kept
    assert more > 10
