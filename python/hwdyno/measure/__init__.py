"""Everything left of the wall: plans, hosts, kernels, peers and the runner; imports nothing that explains or prints."""
