"""Sending: from an event to a batch, from a batch to its receipt."""
