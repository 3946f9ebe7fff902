"""Rules that turn curves, ceilings and peers into sentences, one file a family."""
