"""Kubernetes: the documents of a measurement's pods, and their way from the first to the Run, by ``kubectl``."""
