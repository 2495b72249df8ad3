"""The connection: a link that is made again when it is lost, and the sessions over it, which own what is sent and received."""
