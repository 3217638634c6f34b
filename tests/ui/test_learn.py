"""The lesson's checks: runs solve each step and challenge, and others fail it with a reason."""

from __future__ import annotations

import re
import shutil
import string
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from specviz import ASSETS
from specviz.figures.step_times import StepTimes
from specviz.ui.learn import checks
from specviz.ui.learn.challenges import CHALLENGES
from specviz.ui.learn.checks import Attempt, CheckResult, text_of
from specviz.ui.learn.drawn_tokens import MOST_DRAWS, DrawnTokens, none_drawn, position_of
from specviz.ui.learn.position_bars import DRAWING
from specviz.ui.learn.steps import STEPS
from specviz.ui.session.history import ShownRun
from tests.traces import make_costs
from tests.ui.lesson_runs import preset, real, shown, written
from tests.ui.paging import page_of, sound

TASKS = {f"{folder}/{task.name}": task for folder, tasks in
         (("steps", STEPS), ("challenges", CHALLENGES)) for task in tasks}  # fmt: skip


def result_of(name: str, *runs: ShownRun, answer: object = None, draws: int = 0) -> CheckResult:
    result = TASKS[name].check(Attempt(runs=runs, answer=answer, draws=draws))
    text_of(name)["said"][result.name].format(**result.numbers)  # the text exists
    return result


def is_done(name: str, *runs: ShownRun, answer: object = None, draws: int = 0) -> bool:
    return result_of(name, *runs, answer=answer, draws=draws).done


def failure(name: str, *runs: ShownRun, answer: object = None, draws: int = 0) -> str:
    result = result_of(name, *runs, answer=answer, draws=draws)
    assert not result.done
    return result.name


def slow() -> ShownRun:
    return written(round_seconds=0.1, alone=0.010)


def quick() -> ShownRun:
    return written(round_seconds=0.020, alone=0.010)


# Steps


def test_memory() -> None:
    assert failure("steps/memory") == "none"
    run = written(alone=0.010)
    assert result_of("steps/memory", run).numbers["alone_ms"] == "10.0 ms"
    untimed = shown(replace(run.trace, baseline=None))
    assert result_of("steps/memory", untimed).name == "untimed"
    decoded = result_of("steps/memory", replace(run, growing=True))
    assert decoded.done  # needs no timing of the target alone
    assert decoded.name == "measuring"


def test_memory_compares_two_timed_sizes() -> None:
    small, large = written(parameters=6_000_000, alone=0.001), written(parameters=90_000_000)
    result = result_of("steps/memory", small, large)
    assert result.name == "compared"
    assert result.numbers["bigger_times"] == "15.00×"
    assert result.numbers["slower_times"] == "10.00×"
    assert result_of("steps/memory", small, written(parameters=7_000_000)).name == "done"
    assert result_of("steps/memory", small, replace(large, growing=True)).name == "measuring"


def test_drafting() -> None:
    run = real(gamma=3)
    accepted_count = run.trace.rounds[1].num_accepted
    assert is_done("steps/drafting", run, answer=float(accepted_count))
    assert failure("steps/drafting", run, answer=float(accepted_count + 1)) == "wrong"
    assert failure("steps/drafting", run) == "count"
    assert failure("steps/drafting", real(gamma=5)) == "none"


def test_one_pass() -> None:
    short, long = written(["a"] * 4, gamma=1, verify=0.002), written(["a" * 8] * 4, gamma=8)
    result = result_of("steps/one_pass", short, long)
    assert result.done
    assert result.numbers["ratio_times"] == "2.00×"
    assert result.numbers["more_times"] == "4.50×"
    assert failure("steps/one_pass", short) == "long"
    assert failure("steps/one_pass", long) == "short"
    assert failure("steps/one_pass", short, written(["a" * 8], gamma=8, parameters=9)) == "bodies"


def test_rejection() -> None:
    run = real(temperature=1.0)
    rejected = next(c for e in run.trace.rounds for c in e.candidates if c.verdict == "rejected")
    assert is_done("steps/rejection", run, answer=round(rejected.odds, 2))
    assert failure("steps/rejection", run, answer=rejected.odds + 0.05) == "wrong"
    assert failure("steps/rejection", run) == "odds"
    assert failure("steps/rejection", real(temperature=0.0), answer=0.5) == "none"
    assert failure("steps/rejection") == "first"


def test_residual() -> None:
    assert failure("steps/residual", draws=0) == "draw"
    assert failure("steps/residual", draws=500, answer="leftover") == "draw"
    assert failure("steps/residual", draws=2_000) == "choose"
    assert failure("steps/residual", draws=2_000, answer="target") == "wrong"
    assert is_done("steps/residual", draws=2_000, answer="leftover")


def test_only_the_residual_rule_converges_to_the_target() -> None:
    """The broken rule's distribution is known: it has too much of the draft's excess tokens."""
    position = position_of(real(temperature=1.0).trace)
    assert position is not None
    found = none_drawn(position.texts, position.draft.tolist(), position.target.tolist())
    rng = np.random.default_rng(1)
    for _ in range(200):
        found.draw(rng)
    accepted, target = found.probs.min(0), found.probs[1]
    broken = accepted + (1.0 - accepted.sum()) * target
    shares, noise = found.counts / found.draws, 5.0 / np.sqrt(found.draws)
    assert np.abs(shares[0] - target).max() < noise
    assert np.abs(shares[1] - broken).max() < noise
    assert np.abs(broken - target).max() > 2 * noise
    assert np.abs(broken - target).sum() / 2 == pytest.approx(position.broken_bias)


def test_gamma() -> None:
    runs = [written(["a" * g] * 4, gamma=g, round_seconds=s) for g, s in
            ((1, 0.02), (4, 0.03), (9, 0.09))]  # fmt: skip
    assert is_done("steps/gamma", *runs, answer=4.0)
    assert failure("steps/gamma", *runs, answer=9.0) == "wrong"
    assert failure("steps/gamma", *runs) == "which"
    assert failure("steps/gamma", *runs[:2], answer=4.0) == "few"


def test_costs() -> None:
    run = written(["aaaaa", "ard", "aaaaa", "rdddd"], costs=make_costs())
    assert failure("steps/costs", run, answer=0.0) == "faster"
    assert failure("steps/costs", run, answer=1.0) == "slower"
    assert failure("steps/costs", answer=0.5) == "none"
    untimed = replace(run, growing=True, figures=replace(run.figures, steps=StepTimes()))
    assert failure("steps/costs", untimed, answer=0.5) == "measuring"
    tries = [result_of("steps/costs", run, answer=c / 1000).done for c in range(1000)]
    assert 0 < sum(tries) < 50


def test_loses() -> None:
    assert is_done("steps/loses", slow())
    assert failure("steps/loses", quick()) == "faster"
    assert failure("steps/loses", replace(slow(), growing=True)) == "measuring"
    timing = slow().figures.timing
    assert timing is not None
    unsure = replace(slow().figures, timing=replace(timing, high=1.1))
    assert failure("steps/loses", replace(slow(), figures=unsure)) == "unsure"
    assert failure("steps/loses") == "none"


# Challenges: solved once, and once wrongly


def test_slower() -> None:
    assert is_done("challenges/slower", slow())
    assert failure("challenges/slower", quick()) == "faster"
    assert failure("challenges/slower", replace(slow(), growing=True)) == "measuring"


def test_six_accepted_of_six() -> None:
    assert is_done("challenges/all_stand", real(gamma=8, temperature=0.0, max_new_tokens=96))
    assert failure("challenges/all_stand", real(gamma=5)) == "few"


def test_three_rejections_in_a_row() -> None:
    assert is_done("challenges/fall", real(gamma=2, temperature=2.0, max_new_tokens=96))
    assert failure("challenges/fall", real(temperature=0.0)) == "few"


def test_same_text_at_temperature_0() -> None:
    two, five = (real(gamma=gamma, temperature=0.0) for gamma in (2, 5))
    assert is_done("challenges/same_greedy", two, five)
    assert failure("challenges/same_greedy", two, real(gamma=2)) == "none"
    short = real(gamma=5, temperature=0.0, max_new_tokens=16)
    assert failure("challenges/same_greedy", two, short) == "parted"


def test_five_tokens_per_round() -> None:
    sure = real(preset("Can I play"), gamma=16, temperature=1.0, top_k=1, max_new_tokens=128)
    assert is_done("challenges/tau", sure)
    assert failure("challenges/tau", real(temperature=1.0)) == "few"
    assert failure("challenges/tau", real(gamma=5, temperature=0.0)) == "none"


def test_half_c() -> None:
    dear, cheap = written(costs=make_costs(draft=0.004)), written(costs=make_costs(draft=0.001))
    assert is_done("challenges/half_c", dear, cheap, answer="rises")
    assert failure("challenges/half_c", dear, cheap, answer="falls") == "wrong"
    assert failure("challenges/half_c", dear, cheap) == "say"
    assert failure("challenges/half_c", cheap, dear, answer="rises") == "none"


def test_without_a_draft_model() -> None:
    lookup = real(preset("On Monday"), drafter="prompt-lookup", gamma=8, temperature=0.0,
                  max_new_tokens=96)  # fmt: skip
    assert is_done("challenges/no_draft", lookup)
    assert failure("challenges/no_draft", real(gamma=5)) == "none"
    poor = real(drafter="prompt-lookup", temperature=1.5)
    assert failure("challenges/no_draft", poor) == "few"


def test_a_lossy_rule_has_a_bias() -> None:
    assert is_done("challenges/depends", real(rule="over-accept", epsilon=0.4, temperature=1.0))
    assert failure("challenges/depends", real(rule="over-accept", epsilon=0.001)) == "few"
    assert failure("challenges/depends", real(rule="block", temperature=1.0)) == "exact"


def test_better_mean_and_worse_tail() -> None:
    one = written(["a"] * 6, gamma=1, round_seconds=0.02)
    five = written(["aaaaa"] * 6, gamma=5, round_seconds=0.04)
    assert is_done("challenges/tail", one, five)
    better = written(["aaaaa"] * 6, gamma=5, round_seconds=0.015)
    assert failure("challenges/tail", one, better) == "both"
    assert failure("challenges/tail", one) == "none"


def test_same_text_with_shared_noise() -> None:
    two, five = (real(gamma=g, temperature=1.0, rule="coupled") for g in (2, 5))
    assert is_done("challenges/same_warm", two, five)
    others = (real(gamma=gamma, temperature=1.0) for gamma in (2, 5))
    assert failure("challenges/same_warm", *others) == "parted"
    reseeded = replace(five.trace, config=replace(five.trace.config, seed=99))
    other_seed = replace(five, trace=reseeded)  # the same tokens
    assert not is_done("challenges/same_warm", two, other_seed)
    assert failure("challenges/same_warm", two) == "none"


def of_draft(draft: str, *, round_seconds: float, temperature: float = 0.7) -> ShownRun:
    """Return a timed run with a draft of this name; the others differ only in time."""
    run = written(round_seconds=round_seconds)
    pair, config = run.trace.pair, run.trace.config
    assert pair.draft is not None
    named = replace(pair, draft=replace(pair.draft, name=draft))
    config = replace(config, temperature=temperature)
    return shown(replace(run.trace, pair=named, config=config))


def test_an_own_draft_must_beat_the_embedded_one() -> None:
    box = of_draft("tinystories/draft", round_seconds=0.020)
    slow_own, fast_own = (of_draft("/own/draft", round_seconds=each) for each in (0.030, 0.010))
    assert failure("challenges/trained", box) == "none"
    assert failure("challenges/trained", fast_own) == "no_box"
    assert failure("challenges/trained", box, slow_own) == "slower"
    warm = of_draft("/own/draft", round_seconds=0.010, temperature=1.0)
    assert failure("challenges/trained", box, warm) == "unlike"
    result = result_of("challenges/trained", box, slow_own, fast_own)
    assert (result.done, result.numbers["own_times"]) == (True, "6.00×")
    untimed = shown(replace(fast_own.trace, baseline=None))
    assert failure("challenges/trained", box, untimed) == "none"


# Texts


def test_steps_and_files_match() -> None:
    files = {f"{each.parent.name}/{each.stem}" for each in (ASSETS / "learn/en").glob("*/*.toml")}
    assert files == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_texts_have_what_their_tasks_need(name: str) -> None:
    task, text = TASKS[name], text_of(name)
    assert {"title", "do", "hint", "said"} <= set(text)
    assert "done" in text["said"]
    assert bool(task.asks) == ("asks" in text)
    assert (task.asks in ("choice", "draws")) == ("choices" in text)
    assert not name.startswith("steps") or {"why", "picture"} <= set(text)
    assert not name.startswith("steps") or len(text["why"].split()) < 130
    for words in text["said"].values():
        fields = [field for _, field, _, _ in string.Formatter().parse(words) if field]
        assert all(re.fullmatch(r"[a-z_]+", field) for field in fields)


def test_a_folder_is_a_translation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(ASSETS / "learn", tmp_path / "learn")
    shutil.copytree(tmp_path / "learn" / "en", tmp_path / "learn" / "de")
    page = tmp_path / "learn" / "de" / "page.toml"
    page.write_text(page.read_text("utf-8").replace('"Guess"', '"Raten"'), "utf-8")
    monkeypatch.setattr(checks, "_FOLDER", tmp_path / "learn")
    words = []
    for locale in ("de-AT", "en-GB", "fr-FR"):
        checks._languages.cache_clear()
        checks._read.cache_clear()
        monkeypatch.setattr(checks.st, "context", SimpleNamespace(locale=locale))
        words.append(text_of("page")["guess"])
    checks._languages.cache_clear()
    checks._read.cache_clear()
    assert words == ["Raten", "Guess", "Guess"]


# The page


def test_a_link_opens_its_step() -> None:
    app = page_of("learn", learn="challenges", step="tail")
    assert any(text_of("challenges/tail")["title"] in each.value for each in app.markdown)
    assert app.query_params["step"] == "tail"


def test_an_unknown_step_opens_the_first() -> None:
    app = page_of("learn", learn="nonsense", step="nothing")
    assert any(text_of("steps/memory")["title"] in each.value for each in app.markdown)


def test_a_step_sets_its_controls() -> None:
    app = page_of("learn", step="drafting")
    sound(app.button(key="learn_set").click().run())
    assert app.slider(key="gamma").value == 3


def test_drawing_continues_after_the_bars_changed() -> None:
    """Bars that change after the last draw start the counts, and the fragment's timer, again."""
    app = page_of("learn", step="residual")
    sound(app.toggle(key=DRAWING).set_value(True).run())
    found: DrawnTokens = app.session_state["learn draws"]
    counts = np.full_like(found.counts, MOST_DRAWS / len(found.texts))
    other = DrawnTokens(found.texts, found.probs[::-1].copy(), counts)
    assert other.draws >= MOST_DRAWS
    app.session_state["learn draws"] = other
    sound(app.run())
    assert 0 < app.session_state["learn draws"].draws < MOST_DRAWS


def test_numbers_have_units_of_the_catalogue() -> None:
    result = result_of("steps/memory", written(alone=0.001))
    assert result.numbers["alone_ms"].endswith("ms")
