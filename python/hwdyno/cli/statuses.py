"""The exit statuses of the command line."""

OK, BELOW, ERROR, DEGRADED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: sound; below ``--fail-under``, a regression, a change; usage or error; another verdict; interrupted.

That is by Ctrl-C; SIGTERM gives 143 and SIGHUP 129, as a shell counts.
"""
