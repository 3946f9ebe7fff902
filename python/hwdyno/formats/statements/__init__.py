"""Finds what a text states beside its results: commands, devices, conclusions and copied figures."""

from __future__ import annotations

from hwdyno.formats.statements.attached import add_statements

__all__ = ["add_statements"]
