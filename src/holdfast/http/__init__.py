"""HTTP for those who watch a server: metrics, health and status."""
