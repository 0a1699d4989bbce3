"""Plugins of the hook `classify_error`: what kind of failure an upstream answer is."""
