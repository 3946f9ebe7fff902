"""hwdyno puts a machine on the dyno: what it delivers, what it could, and why they differ."""

__version__ = "0.1.0"
