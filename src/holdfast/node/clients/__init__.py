"""The client manager: owns sessions and links, turns requests into commands."""
