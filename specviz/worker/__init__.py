"""The process that owns the models (``child``) and its client in the dashboard (``parent``)."""
