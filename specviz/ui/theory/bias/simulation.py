"""The acceptance rules of the page "Bias or speed".

Each rule is a point of a chart: its probability of a rejection (x) and its bias (y). Both are
computed exactly and simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import streamlit as st

from specviz.theory import tradeoff
from specviz.theory.tradeoff import Distribution, Tally
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.theory.bias.charts import ExactPoint, Side, SimulatedPoint
from specviz.values import Value

_BATCH = 10_000  # positions that each rule simulates per redraw
NARROW = 0.002  # the simulation ends when every interval is within ± this
_TICK = 0.5  # seconds
_KEY = "bias_simulation"


class Settings(Value):
    """The distributions of draft and target, and the parameters of the acceptance rules."""

    draft: tuple[float, ...]
    target: tuple[float, ...]
    epsilon: float
    lenience: float
    threshold: float

    @property
    def distance(self) -> float:
        return tradeoff.total_variation(self.draft, self.target)

    def over_accept(self) -> Distribution:
        return tradeoff.over_accept(self.draft, self.target, self.epsilon)

    def policies(self) -> tuple[Policy, ...]:
        """Return the rules with their recovery distributions, in the order of the chart."""
        pair = self.draft, self.target
        leftover = tradeoff.residual_distribution(*pair)
        over = self.over_accept()
        lenient = tradeoff.lenient(*pair, self.lenience)
        threshold = tradeoff.hard_threshold(*pair, self.threshold)
        best = tradeoff.optimum(*pair, threshold).recover
        target, draft = np.asarray(self.target), np.asarray(self.draft)
        return (
            self._policy(f"ε {self.epsilon:g}, OPT", over, leftover),
            self._policy(f"ε {self.epsilon:g}, UNO", over, target),
            self._policy(f"ε {self.epsilon:g}, draft again", over, draft),
            self._policy(f"lenience {self.lenience:g}", lenient, leftover, "bottom left"),
            self._policy(f"threshold {self.threshold:g}", threshold, best, "top center"),
        )

    def _policy(
        self,
        name: str,
        accept: Distribution,
        recover: Distribution,
        side: Side = "middle right",
    ) -> Policy:
        return Policy(self, name, accept, recover, side)


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """An acceptance rule, and the distribution from which it draws recovered tokens."""

    settings: Settings
    name: str
    accept: Distribution
    recover: Distribution
    side: Side

    @property
    def point(self) -> tuple[float, float]:
        pair = self.settings.draft, self.settings.target
        return tradeoff.rejection_and_bias(*pair, self.accept, self.recover)

    @property
    def emitted(self) -> Distribution:
        pair = self.settings.draft, self.settings.target
        return tradeoff.output_distribution(*pair, self.accept, self.recover)

    def exact_point(self) -> ExactPoint:
        reject, bias = self.point
        return ExactPoint(name=self.name, reject=reject, bias=bias, side=self.side)

    def simulate(self, rng: np.random.Generator) -> Tally:
        pair = self.settings.draft, self.settings.target
        return tradeoff.simulate(*pair, self.accept, self.recover, trials=_BATCH, rng=rng)

    def simulated_point(self, tally: Tally) -> SimulatedPoint:
        found = tradeoff.estimate(tally, self.settings.target, self.emitted)
        reject, reject_width, bias, bias_width = found
        return SimulatedPoint(
            name=self.name,
            reject=reject,
            reject_width=reject_width,
            bias=bias,
            bias_width=bias_width,
        )


@dataclass(slots=True)
class Simulation:
    """What each acceptance rule did at the positions simulated so far with these settings."""

    settings: Settings
    tallies: dict[str, Tally] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @property
    def trials(self) -> int:
        return min((each.trials for each in self.tallies.values()), default=0)

    def simulated(self) -> list[SimulatedPoint]:
        policies = self.settings.policies()
        return [each.simulated_point(self.tallies[each.name]) for each in policies if self.tallies]

    @property
    def widest(self) -> float:
        widths = [max(each.reject_width, each.bias_width) for each in self.simulated()]
        return max(widths, default=1.0)

    @property
    def done(self) -> bool:
        return self.trials > 0 and self.widest <= NARROW

    def step(self) -> None:
        for policy in self.settings.policies():
            batch = policy.simulate(self.rng)
            known = self.tallies.get(policy.name)
            self.tallies[policy.name] = batch if known is None else known + batch


def simulation_of(settings: Settings) -> Simulation:
    """Return the session's simulation, or a new one if the settings have changed."""
    known = st.session_state.get(_KEY)
    if not isinstance(known, Simulation) or known.settings != settings:
        known = st.session_state[_KEY] = Simulation(settings)
    return known


def run_simulation(settings: Settings, paused: bool, draw: Callable[[Simulation], None]) -> None:
    """Twice a second, simulate a batch and call ``draw``, until every interval is narrow."""
    simulation = simulation_of(settings)

    def step() -> bool:
        """Simulate a batch; return whether another batch follows."""
        if not (paused or simulation.done):
            simulation.step()
        return not (paused or simulation.done)

    redraw_while_busy(step(), step, bool, lambda _: draw(simulation), seconds=_TICK)
