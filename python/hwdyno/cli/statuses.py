"""The exit statuses of the command line."""

OK, BELOW, ERROR, DEGRADED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: sound; below ``--fail-under`` or a regression; usage or error; any other verdict; interrupted.

That is by Ctrl-C; SIGTERM gives 143 and SIGHUP 129, as a shell counts.
"""
