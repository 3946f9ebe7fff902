"""Follows a machine's figures over its Runs: since when a figure is another one, and what changed then."""
