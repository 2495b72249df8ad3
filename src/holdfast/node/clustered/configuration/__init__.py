"""The configuration of a node of a cluster: what all nodes share, its copy on disk, and its changes while the node runs."""
