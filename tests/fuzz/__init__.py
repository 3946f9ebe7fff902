"""Fuzzes every reader of text that others wrote: by mutation in the test suite, and guided by coverage on demand."""
