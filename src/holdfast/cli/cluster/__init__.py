"""Commands on a cluster: start one on this machine, end it, and show its state."""
