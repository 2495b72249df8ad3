"""Assemblies: transactions, large events and stages, sent in parts and decided in one step."""
