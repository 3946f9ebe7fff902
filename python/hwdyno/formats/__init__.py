"""Foreign formats, one file each, read or written."""
