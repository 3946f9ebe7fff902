"""Everything right of the wall: findings, comparisons, trends and fleets; a stored Run is all that they read."""
