"""The cluster: where each destination is among several message managers, who is silent, and who takes over. Pure."""
