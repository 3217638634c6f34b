"""The figures of an answer: they follow from its values alone, so the store has them, too."""

from specviz.record.server_figures import ServerMetrics, server_metrics

__all__ = ["ServerMetrics", "server_metrics"]
