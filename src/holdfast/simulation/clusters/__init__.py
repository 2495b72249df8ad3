"""Simulated clusters: whole nodes, clients, channel and bus from one seed, on a simulated network and clock."""
