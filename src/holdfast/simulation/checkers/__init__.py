"""Checkers: one for each promise, held against what a simulated or a real run left behind."""
