"""The dashboard with fake machine resources: ``SPECVIZ_MACHINE`` is slow or fast."""

from __future__ import annotations

import os

import pytest

from specviz.ui.shell import open_shell
from tests.machines import LAPTOP, SLOW, answer_with

answer_with(pytest.MonkeyPatch(), {"slow": SLOW, "fast": LAPTOP}[os.environ["SPECVIZ_MACHINE"]])
open_shell()
