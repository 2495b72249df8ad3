"""Commands about continuity: domains, their engines and their listeners."""
