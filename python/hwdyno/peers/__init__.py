"""Reference tools, one file each: is it here, run it on this Point, read its answer."""
