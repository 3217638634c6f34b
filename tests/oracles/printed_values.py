"""Values of over-acceptance as tabulated, on the five-token example ``REF5``."""

from __future__ import annotations

# epsilon: P(reject), least bias, bias recovering from the target, and from the draft.
OVER_ACCEPT = {
    0.0: (0.30, 0.0, 0.105, 0.195),
    0.02: (0.26, 0.04, 0.131, 0.209),
    0.05: (0.20, 0.10, 0.170, 0.230),
    0.10: (0.15, 0.15, 0.2025, 0.2475),
    0.15: (0.10, 0.20, 0.235, 0.265),
    0.20: (0.05, 0.25, 0.2675, 0.2825),
    0.25: (0.0, 0.30, 0.30, 0.30),
    0.40: (0.0, 0.30, 0.30, 0.30),
}
