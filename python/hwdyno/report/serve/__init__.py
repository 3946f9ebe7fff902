"""Shows the stored Runs in a browser: runs, trends, comparisons and the fleet; it reads, and changes nothing."""
