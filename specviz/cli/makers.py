"""Load the pair of a command, or choose where its runs are made: here or on a Ray cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specviz.cli.option_values import spec_from
from specviz.cli.progress_lines import progress_in_lines
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.measure.run_makers import InProcessMaker, RunMaker

if TYPE_CHECKING:
    from specviz.engine import Pair


@contextmanager
def maker_for(
    options: argparse.Namespace, say: Callable[[str], None], *, timed: bool
) -> Iterator[RunMaker]:
    """Yield a maker of runs that uses this process or, with --on, a cluster.

    A cluster's maker is closed at the end of the ``with`` block.

    ``timed``: whether the times of the runs are compared.
    """
    if options.on is None:
        yield InProcessMaker(progress_in_lines(say), budget=options.budget)
        return
    from specviz.cluster.address import cluster_address
    from specviz.cluster.cluster_maker import ClusterMaker

    with ClusterMaker(
        cluster_address(options.on),
        timed=timed,
        threads=options.threads,
        device=options.device,
        budget=options.budget,
    ) as maker:
        yield maker


def load_pair_of(options: argparse.Namespace, say: Callable[[str], None]) -> Pair:
    """Load the pair that the options name, and print the progress in lines."""
    return LoadedPairs().load(spec_from(options), progress_in_lines(say))
