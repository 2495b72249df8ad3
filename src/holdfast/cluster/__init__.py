"""The cluster: where each destination is among several message managers, who is silent, who takes over, and how transactions end. Pure."""
