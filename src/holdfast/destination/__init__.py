"""Destinations: pure machines that turn commands into state and effects."""
