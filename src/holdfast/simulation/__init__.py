"""Simulation: production code on a simulated disk, or in simulated clusters, with one checker for each promise."""
