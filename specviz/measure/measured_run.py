"""A run with everything it is compared with: step costs, a forecast, the target alone.

Step costs and the forecast come before the run. The target alone comes after it, in blocks A B B A:
target alone, the run again, the run again, target alone. The run that was watched only gives the
words; the times that are compared come from these blocks, which nobody watches.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from specviz.measure.forecast import forecast, stored_profile
from specviz.measure.step_costs import step_costs
from specviz.record.pairs import Tell
from specviz.record.prompts import kind_of
from specviz.record.trace import (
    Baseline,
    Block,
    Forecast,
    Prompt,
    Round,
    RunConfig,
    StepCosts,
    Trace,
)

if TYPE_CHECKING:
    from specviz.engine import Pair, Speculation


class MeasuredRun(Iterator[Round]):
    """Iterate over it for the rounds; then ``trace`` measures the target alone and returns all."""

    def __init__(
        self,
        pair: Pair,
        prompt: str | Sequence[int],
        config: RunConfig,
        *,
        baseline: bool,
        kind: str | None,
        fresh_costs: bool,
        tell: Tell | None,
    ) -> None:
        from specviz.engine import speculate
        from specviz.engine.decoding.endings import room_for
        from specviz.engine.model.chat import encode_prompt

        self._pair = pair
        self._config = config
        self._wants_baseline = baseline
        self._kind = kind_of(prompt) if isinstance(prompt, str) else None
        # A prompt that cannot be continued is refused before anything is measured for it.
        room_for(pair, encode_prompt(pair, prompt, chat=config.chat), config)
        self._costs: StepCosts | None = step_costs(pair, config, fresh=fresh_costs, tell=tell)
        self._run: Speculation = speculate(pair, prompt, config)
        self._rounds: list[Round] = []
        self.prompt: Prompt = dataclasses.replace(self._run.prompt, kind=kind or self._kind)
        self.forecast: Forecast | None = self._forecast()

    def __iter__(self) -> MeasuredRun:
        return self

    def __next__(self) -> Round:
        entry = next(self._run)
        self._rounds.append(entry)
        return entry

    def stop(self) -> None:
        """End after the present round, without measuring the target alone."""
        self._wants_baseline = False
        self._run.stop()

    def trace(self) -> Trace:
        """The whole record; for a stopped run without the target alone."""
        finish = self._run.finish
        measured = self._wants_baseline and finish != "stopped" and self._rounds
        return Trace(
            config=self._config,
            pair=self._pair.info,
            environment=self._pair.environment,
            prompt=self.prompt,
            prefill=self._run.prefill,
            rounds=tuple(self._rounds),
            text=self._run.text,
            finish=finish,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            step_costs=self._costs,
            forecast=self.forecast,
            baseline=measure_baseline(self._pair, self._run) if measured else None,
            notices=self._pair.notices,
            pieces=self._pieces(),
        )

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
    tell: Tell | None = None,
) -> MeasuredRun:
    """``kind`` is what the user calls the prompt's kind; forecasts know only those of the presets.

    ``tell`` hears of the measuring of step costs.
    """
    return MeasuredRun(
        pair,
        prompt,
        config,
        baseline=baseline,
        kind=kind,
        fresh_costs=fresh_costs,
        tell=tell,
    )


def measure_baseline(pair: Pair, run: Speculation) -> Baseline:
    """Blocks A B B A along the words of a finished run."""
    with undisturbed():
        first_prefill, first = _target_block(pair, run)
        repeats = (_repeat_block(pair, run), _repeat_block(pair, run))
        last_prefill, last = _target_block(pair, run)
    return Baseline(blocks=(first, *repeats, last), prefill=(first_prefill + last_prefill) / 2)


def _target_block(pair: Pair, run: Speculation) -> tuple[float, Block]:
    from specviz.engine.decoding.plain_decoding import forced_seconds

    prefill, seconds = forced_seconds(pair, run.prompt.token_ids, run.emitted, run.config)
    return prefill, Block(lane="target", seconds=seconds)


def _repeat_block(pair: Pair, run: Speculation) -> Block:
    """The same run again: the same seed gives the same rounds."""
    from specviz.engine import speculate

    settings = dataclasses.replace(run.config, record=False, chat=False)
    again = speculate(pair, run.prompt.token_ids, settings)
    seconds = tuple(entry.times.decode for entry in again)
    assert again.emitted == run.emitted
    return Block(lane="speculative", seconds=seconds)


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection inside a timed block."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
