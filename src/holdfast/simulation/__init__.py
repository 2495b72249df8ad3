"""Simulation: production code on a simulated disk, with one checker for each promise."""
