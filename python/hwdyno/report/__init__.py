"""The page, the tables and the pictures made from a Run."""
