"""The cluster: where each destination is among several message managers. Pure."""
