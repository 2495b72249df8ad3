"""The bus of a cluster: core NATS, and links over it between client managers and primaries."""
