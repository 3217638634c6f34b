"""A run with everything it is compared with: step costs, a forecast, the target alone.

The forecast comes before the run, from step costs that are stored already; a run that begins
without them has none. Only a run that decides by costs has them measured before. After the run the
target alone is timed, in slices along its words, in which the run is timed again: the run that was
watched only gives the words. Then its words are scored, and step costs that were missing are
measured last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from specviz.figures.stopping_reach import drafting_costs
from specviz.measure.forecast import forecast, stored_profile
from specviz.measure.slice_timing import timed_slices, timing_seconds
from specviz.measure.step_costs import step_costs, stored_costs
from specviz.record.pairs import ProgressCallback
from specviz.record.prompts import kind_of
from specviz.record.trace import (
    Baseline,
    DraftingCosts,
    Forecast,
    Prompt,
    Round,
    RunConfig,
    StepCosts,
    Trace,
)

if TYPE_CHECKING:
    from specviz.engine import Pair, SpeculativeRun


class MeasuredRun(Iterator[Round]):
    """Iterate over it for the rounds, then over ``timed``; then let it ``complete``.

    ``trace`` returns what there is at any time.
    """

    def __init__(
        self,
        pair: Pair,
        prompt: str | Sequence[int],
        config: RunConfig,
        *,
        baseline: bool,
        kind: str | None,
        fresh_costs: bool,
        budget: float | None,
        tell: ProgressCallback | None,
    ) -> None:
        from specviz.engine import speculate
        from specviz.engine.decoding.endings import room_for
        from specviz.engine.model.chat import encode_prompt

        self._pair = pair
        self._config = config
        # The oracle knows what nobody can, so its times say nothing.
        self._wants_baseline = baseline and config.until.stopping.measured
        self._budget = timing_seconds() if budget is None else budget
        self._kind = kind_of(prompt) if isinstance(prompt, str) else None
        # A prompt that cannot be continued is refused before anything is measured for it.
        prompt_ids = encode_prompt(pair, prompt, chat=config.chat)
        room_for(pair, prompt_ids, config)
        self._costs: StepCosts | None = (
            step_costs(pair, config, fresh=True, tell=tell)
            if fresh_costs
            else stored_costs(pair, config)
        )
        self._drafting_costs = self._decided_by(len(prompt_ids), tell)
        self._run: SpeculativeRun = speculate(pair, prompt, config, costs=self._drafting_costs)
        self._rounds: list[Round] = []
        self._timing: Baseline | None = None
        self._odds: tuple[float, ...] = ()
        self.prompt: Prompt = dataclasses.replace(self._run.prompt, kind=kind or self._kind)
        self.forecast: Forecast | None = self._forecast()

    def __iter__(self) -> MeasuredRun:
        return self

    def __next__(self) -> Round:
        entry = next(self._run)
        self._rounds.append(entry)
        return entry

    def stop(self) -> None:
        """End after the present round; the target alone is not timed then."""
        self._wants_baseline = False
        self._run.stop()

    def timed(self) -> Iterator[Baseline]:
        """Time the target alone, and the run again; yields what is known after every slice.

        Nothing for a run that was stopped. Whoever stops listening keeps what was timed.
        """
        if not self._wants_baseline or self._run.finish == "stopped" or not self._rounds:
            return
        run = self._run
        run.release()
        for timing in timed_slices(
            self._pair,
            run.prompt.token_ids,
            self._config,
            self._rounds,
            budget=self._budget,
            costs=self._drafting_costs,
        ):
            self._timing = timing
            yield timing

    def complete(self, tell: ProgressCallback | None = None, *, costs: bool = True) -> None:
        """What else belongs to a run that was not stopped: the odds along its words and, with
        ``costs``, step costs if none are stored. ``tell`` hears of it."""
        if self._run.finish == "stopped":
            return
        if not self._odds and self._rounds:
            self._odds = self._scored()
        if self._costs is None and costs:
            self._costs = step_costs(self._pair, self._config, tell=tell)

    def _scored(self) -> tuple[float, ...]:
        """Empty where the run's words do not have the target's law, or no model drafted."""
        config = self._config
        has_law = config.by_odds and not config.forks
        if not (has_law and config.draft_method.needs_draft):
            return ()
        from specviz.engine.decoding.scoring import score_text

        text = [token for entry in self._rounds for token in entry.emitted]
        (scores,) = score_text(self._pair, self._run.prompt.token_ids, text, [config])
        return scores.odds

    def trace(self) -> Trace:
        """All that is known so far."""
        return Trace(
            config=self._config,
            pair=self._pair.info,
            environment=self._pair.environment,
            prompt=self.prompt,
            prefill=self._run.prefill,
            rounds=tuple(self._rounds),
            text=self._run.text,
            finish=self._run.finish,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            step_costs=self._costs,
            forecast=self.forecast,
            baseline=self._timing,
            notices=(*self._pair.notices, *self._run.notices),
            pieces=self._pieces(),
            odds=self._odds,
            drafting_costs=self._drafting_costs,
        )

    def _decided_by(
        self, prompt_length: int, tell: ProgressCallback | None
    ) -> DraftingCosts | None:
        """What a run that drafts while it pays goes by: costs in the middle of its text."""
        config = self._config
        if config.until.stopping.name != "cost":
            return None
        if self._costs is None:
            self._costs = step_costs(self._pair, config, tell=tell)
        if self._costs is None or not self._costs.draft:
            return None
        return drafting_costs(self._costs, prompt_length + config.max_new_tokens / 2, config.gamma)

    def _pieces(self) -> dict[str, str]:
        """The text pieces of all tokens used; before the first round, of the whole vocabulary."""
        table = self._pair.token_table
        if not self._rounds:
            return table.split(range(len(table.texts)))
        return table.split(used_ids(self.prompt, self._rounds))

    def _forecast(self) -> Forecast | None:
        profile = stored_profile(self._pair, self._config, self._kind) if self._kind else None
        length = len(self.prompt.token_ids)
        return forecast(profile, self._costs, self._config, self.prompt.text, length)


def used_ids(prompt: Prompt, rounds: Sequence[Round]) -> set[int]:
    """Every token that a trace names."""
    ids = set(prompt.token_ids)
    for entry in rounds:
        ids.update(each.token_id for each in entry.candidates)
        ids.update([entry.extra.token_id] if entry.extra else [])
        for seen in (each.insight for each in entry.candidates if each.insight):
            for tops in (seen.draft_top, seen.target_top, seen.residual_top):
                ids.update(tops.token_ids)
    return ids


def measured_run(
    pair: Pair,
    prompt: str | Sequence[int],
    config: RunConfig,
    *,
    baseline: bool = True,
    kind: str | None = None,
    fresh_costs: bool = False,
    budget: float | None = None,
    tell: ProgressCallback | None = None,
) -> MeasuredRun:
    """``kind`` is what the user calls the prompt's kind; forecasts know only those of the presets.

    ``budget``: seconds for timing the target alone, ``timing_seconds`` if None. ``fresh_costs``
    measures step costs now, even if some are stored; ``tell`` hears of it.
    """
    return MeasuredRun(
        pair,
        prompt,
        config,
        baseline=baseline,
        kind=kind,
        fresh_costs=fresh_costs,
        budget=budget,
        tell=tell,
    )


def finish(run: MeasuredRun, tell: ProgressCallback | None = None) -> Trace:
    """What is left of a run: all its rounds, the timing, the step costs."""
    for _ in run:
        pass
    for _ in run.timed():
        pass
    run.complete(tell)
    return run.trace()
