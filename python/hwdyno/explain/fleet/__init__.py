"""Holds the machines of a fleet against each other: which one is slow, in what, and what is different about it."""
