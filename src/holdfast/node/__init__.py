"""The node: the process that joins machines, disks and sockets."""
