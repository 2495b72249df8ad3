"""Sessions, as their client manager sees them. Pure."""
