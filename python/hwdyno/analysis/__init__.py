"""Numbers in, numbers out: statistics, curves, ceilings and what a resource is; imports ``model`` alone."""
