"""Calls of rules, ceilings, curves and statistics with what each comes to, written out: ``tests/data/calls.jsonl``."""
