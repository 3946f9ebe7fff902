"""Runs every kind of command again and again, and judges whether memory, descriptors, disk or processes grow."""
