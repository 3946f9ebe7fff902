"""Holds the verdicts on curves, rates and intervals against simulators that share no code with them."""
