"""Ends commands by signals at random moments, and judges what they leave: ``python -m signals --moments 1000``."""
