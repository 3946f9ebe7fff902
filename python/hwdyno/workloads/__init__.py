"""Real software timed from outside."""
