"""Measure how long each part of loading a pair takes, from the progress reports."""

from __future__ import annotations

import time

from specviz.record.pairs import LoadPart, Progress, ProgressCallback

_DOWNLOADING = "downloading"


class LoadTimer:
    """A progress callback that also measures the time that each activity takes."""

    def __init__(self, on_progress: ProgressCallback) -> None:
        self._on_progress = on_progress
        self._starts: list[tuple[str, float]] = []  # of each activity
        self._once = {_DOWNLOADING}  # activities that a later load does not repeat

    def __call__(self, progress: Progress) -> None:
        is_download = progress.activity == _DOWNLOADING  # its text changes with its progress
        self.begin(progress.activity if is_download else progress.text)
        if progress.activity == "compiling":
            self._once.add(progress.text)
        self._on_progress(progress)

    def begin(self, activity: str) -> None:
        if not self._starts or self._starts[-1][0] != activity:
            self._starts.append((activity, time.perf_counter()))

    def parts(self) -> tuple[LoadPart, ...]:
        """Return the activities with their total times so far, the current activity included."""
        if not self._starts:
            return ()
        ends = [*(start for _, start in self._starts[1:]), time.perf_counter()]
        totals = dict.fromkeys((text for text, _ in self._starts), 0.0)
        for (text, start), end in zip(self._starts, ends, strict=True):
            totals[text] += end - start
        return tuple(LoadPart(text=text, seconds=each) for text, each in totals.items())

    def seconds_of_another_load(self) -> float:
        """Return the seconds to load the pair again, without downloads and compilation."""
        return sum(each.seconds for each in self.parts() if each.text not in self._once)
