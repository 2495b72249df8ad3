"""Applying: what each command does to the state."""
