"""Running a plan: order, reuse, warm-ups and storage; the cache of loaded pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.comparison import LaneRun, compare
from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.comparison.plan_runner import (
    WARM_UP_TOKENS,
    Kept,
    blocks_of,
    plan_that_fits,
    run_plan,
)
from specviz.engine.model.pair import Pair
from specviz.errors import DeviceError
from specviz.measure import loaded_pairs
from specviz.measure.loaded_pairs import LoadedPairs, RunMemory
from specviz.measure.measured_run import MeasuredRun, measured_run
from specviz.measure.run_makers import Block, InProcessMaker, MadeRun, in_turn
from specviz.record.pairs import ModelCheck, PairCheck, PairSpec, Progress, memory_margin
from specviz.record.trace import RunConfig
from tests.step_costs import place_step_costs

CONFIG = RunConfig(max_new_tokens=30, ignore_eos=True)


@pytest.fixture(autouse=True, scope="module")
def stored_step_costs(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        place_step_costs(pair, "model", "prompt-lookup")
        yield


@pytest.fixture
def maker(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> InProcessMaker:
    """A maker with the tiny pair loaded."""
    monkeypatch.setattr(loaded_pairs, "load", lambda _spec, _on_progress, **_options: pair)
    return InProcessMaker(_ignore_progress)


def made_in_turn(
    plan: Plan,
    maker: InProcessMaker,
    keep: Callable[[Sequence[Kept]], object] = lambda _made: None,
    done: Collection[tuple[int, int, int]] = (),
) -> Iterator[LaneRun]:
    return run_plan(plan, lambda blocks: in_turn(maker.make, blocks, set()), keep, done)


def plan_of(folder: Path, repeats: int = 2) -> Plan:
    spec = PairSpec(draft=str(folder / "draft"), target=str(folder / "target"), threads=1)
    configs = (replace(CONFIG, gamma=3), replace(CONFIG, drafter="prompt-lookup"))
    return Plan(
        lanes=tuple(Lane(spec=spec, config=config) for config in configs),
        items=(SuiteItem(prompt="The dog ran to", kind="own"), SuiteItem(prompt="Lily had a")),
        repeats=repeats,
    )


def test_every_run_is_made_in_order_and_stored_before_it_is_reported(
    maker: InProcessMaker, pair: Pair, folder: Path
) -> None:
    plan, kept = plan_of(folder), list[LaneRun]()
    for number, run in enumerate(
        made_in_turn(plan, maker, lambda made: kept.extend(run for run, _ in made))
    ):
        assert kept[-1] is run
        assert len(kept) == number + 1
    assert tuple(run.job for run in kept) == plan.runs()
    for run in kept:
        trace = run.trace
        assert trace.config == run.job.config(plan)
        assert trace.prompt.text == plan.items[run.job.item].prompt
        assert trace.prompt.kind == plan.items[run.job.item].kind
        assert trace.baseline is not None
        assert run.memory_bytes == weights(pair, draft=trace.config.drafter == "model")
    found = compare(plan, kept)
    assert found.complete
    assert found.verdict.ratios[0, 1].over == "prompts"
    assert found.lanes[0].speedup is not None


def test_finished_runs_are_skipped_and_warm_ups_discarded(
    maker: InProcessMaker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(folder, repeats=1)
    requested: list[tuple[RunConfig, bool]] = []

    def spy(
        pair: Pair, prompt: str, config: RunConfig, *, baseline: bool, **how: Any
    ) -> MeasuredRun:
        requested.append((config, baseline))
        return measured_run(pair, prompt, config, baseline=baseline, **how)

    monkeypatch.setattr("specviz.measure.measured_run.measured_run", spy)
    done = {job.key for job in plan.runs()[:2]}
    made = [run.job for run in made_in_turn(plan, maker, done=done)]
    assert made == list(plan.runs()[2:])
    warm = [config for config, baseline in requested if not baseline]
    assert [config.max_new_tokens for config in warm] == [WARM_UP_TOKENS] * 2
    assert len(requested) == len(made) + 2
    everything = {job.key for job in plan.runs()}
    assert list(made_in_turn(plan, maker, done=everything)) == []


def test_a_run_that_cannot_be_stored_is_not_reported(maker: InProcessMaker, folder: Path) -> None:
    def full(_made: Sequence[Kept]) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        next(made_in_turn(plan_of(folder), maker, full))


def test_a_block_has_the_runs_that_are_compared(folder: Path) -> None:
    plan = plan_of(folder)
    jobs = plan.runs()
    assert blocks_of(plan) == [jobs[each : each + 2] for each in range(0, 8, 2)]
    assert blocks_of(plan, {jobs[0].key, *(each.key for each in jobs[2:])}) == [jobs[1:2]]
    alone = replace(plan, baseline=False)
    assert blocks_of(alone) == [(each,) for each in jobs]
    other = replace(plan.lanes[1], spec=replace(plan.lanes[1].spec, dtype="bfloat16"))
    by_pair = replace(plan, lanes=(plan.lanes[0], other), order="blocks")
    assert [len(block) for block in blocks_of(by_pair)] == [1] * 8
    assert [each for block in blocks_of(by_pair) for each in block] == list(by_pair.runs())


def test_blocks_may_finish_in_any_order_and_are_stored_whole(
    maker: InProcessMaker, folder: Path
) -> None:
    plan, kept = replace(plan_of(folder), baseline=False), list[list[LaneRun]]()

    def backwards(blocks: Sequence[Block]) -> Iterator[tuple[int, list[MadeRun]]]:
        for place in reversed(range(len(blocks))):
            yield place, [maker.make(each.order) for each in blocks[place].runs]

    def keep(made: Sequence[Kept]) -> None:
        kept.append([run for run, _ in made])

    runs = list(run_plan(plan, backwards, keep))
    assert [run for block in kept for run in block] == runs
    assert [run.job for run in runs] == list(reversed(plan.runs()))
    assert all(run.trace.config == run.job.config(plan) for run in runs)


def weights(pair: Pair, *, draft: bool) -> int:
    """Return the bytes of the parameters, none of which the tiny models share."""
    assert pair.info.draft is not None
    counts = [pair.info.target.parameters, pair.info.draft.parameters if draft else 0]
    return sum(counts) * 4


def test_gpu_memory_includes_the_peak_of_the_run(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cuda:
        used, most = 500, 900

        def reset_peak_memory_stats(self, _device: object) -> None:
            self.most = self.used

        def memory_allocated(self, _device: object) -> int:
            return self.used

        def max_memory_allocated(self, _device: object) -> int:
            return self.most

    cuda = Cuda()
    monkeypatch.setattr(loaded_pairs, "_cuda", lambda: cuda)
    memory = RunMemory(replace(pair, device=torch.device("cuda")), CONFIG)
    cuda.most = 720
    assert memory.measured() == weights(pair, draft=True) + 220


def test_a_plan_whose_pairs_do_not_fit_runs_in_blocks(folder: Path) -> None:
    plan = plan_of(folder)
    assert plan_that_fits(plan, {}) is plan  # one pair only
    other = replace(plan.lanes[1], spec=replace(plan.lanes[1].spec, dtype="bfloat16"))
    two = replace(plan, lanes=(plan.lanes[0], other))
    for free, order in ((10**12, "interleaved"), (10**6, "blocks"), (None, "blocks")):
        model = ModelCheck(name="m", family="llama", parameters=9, bytes_to_fetch=0)
        check = PairCheck(
            target=model, draft=model, vocabulary=9, memory_needed=10**6, memory_free=free
        )
        assert (
            plan_that_fits(two, dict.fromkeys((lane.spec for lane in two.lanes), check)).order
            == order
        )


# The cache of loaded pairs


class FakeMemory:
    """Simulated memory for ``room`` pairs of 1 GB; records what is loaded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pair: Pair, room: int | None) -> None:
        self.loaded: list[str | None] = []
        self.pairs = LoadedPairs()
        self.room = room
        self.pair = pair
        self.fails = 0
        need = type("Check", (), {"memory_needed": 10**9})
        monkeypatch.setattr("specviz.engine.check_pair", lambda _spec, _on_progress: need)
        monkeypatch.setattr(loaded_pairs, "load", self.load)
        monkeypatch.setattr(loaded_pairs, "release_memory", lambda: None)
        monkeypatch.setattr(loaded_pairs, "free_memory", self.free)

    def load(self, spec: PairSpec, _on_progress: object, **_options: Any) -> Pair:
        if self.fails:
            self.fails -= 1
            raise DeviceError("Out of memory on cpu.", remedy="Use less.")
        self.loaded.append(spec.name)
        return self.pair

    def free(self, _spec: PairSpec) -> int | None:
        used = len(self.pairs) * 10**9
        return None if self.room is None else memory_margin(10**9) + (self.room - 1) * 10**9 - used

    def load_all(self, *names: str) -> list[str | None]:
        self.loaded.clear()
        for name in names:
            self.pairs.load(PairSpec(name=name), _ignore_progress)
        return list(self.loaded)


def _ignore_progress(_progress: Progress) -> None:
    pass


def test_the_least_recently_used_pair_is_evicted_first(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = FakeMemory(monkeypatch, pair, room=2)
    assert memory.load_all("a", "b", "a", "b", "a") == ["a", "b"]
    assert memory.load_all("c", "a", "b") == ["c", "b"]  # b is evicted first, then c
    assert len(memory.pairs) == 2
    memory.pairs.clear()
    assert memory.pairs.get(PairSpec(name="a")) is None


@pytest.mark.parametrize("room", [None, 1])
def test_one_pair_stays_loaded_if_no_more_fit_or_memory_is_unknown(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, room: int | None
) -> None:
    memory = FakeMemory(monkeypatch, pair, room=room)
    assert memory.load_all("a", "b", "a") == ["a", "b", "a"]
    assert len(memory.pairs) == 1


def test_at_most_four_pairs_stay_loaded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = FakeMemory(monkeypatch, pair, room=100)
    assert memory.load_all("a", "b", "c", "d", "e", "b") == ["a", "b", "c", "d", "e"]
    assert len(memory.pairs) == 4


def test_a_load_that_runs_out_of_memory_is_retried_once_alone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = FakeMemory(monkeypatch, pair, room=5)
    memory.load_all("a")
    memory.fails = 1
    assert memory.load_all("b") == ["b"]
    assert len(memory.pairs) == 1
    memory.fails = 2
    with pytest.raises(DeviceError):
        memory.load_all("c")
    assert len(memory.pairs) == 0
