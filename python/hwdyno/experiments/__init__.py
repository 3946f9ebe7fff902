"""What can be asked of a machine, one file a resource; an experiment is data."""
