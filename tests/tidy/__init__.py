"""Rules of the house, each a pure function from a tree of sources to the violations that it finds."""
