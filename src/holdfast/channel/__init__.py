"""Channels: durable, ordered sequences of commands."""
