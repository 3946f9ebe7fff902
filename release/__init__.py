"""Builds what a release has: wheels, the source distribution, the bare engines, the image, SBOMs and checksums."""
