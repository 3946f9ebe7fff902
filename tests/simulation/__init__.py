"""Machines and paths that do not exist, as hosts with a known truth: tests check measuring and rules on them."""
