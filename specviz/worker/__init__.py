"""The process that owns the models (``child``), and the dashboard's side of it (``parent``)."""
