"""Orders of an operator to a cluster, carried out by the nodes they concern: planned takeover, drain, and checks of copies."""
