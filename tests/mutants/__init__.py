"""Changes single lines of what judges, and asks whether the tests notice: ``python -m mutants``."""
