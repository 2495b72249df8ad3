"""The wire: frames between a client and a client manager, over TCP, TLS or within a process."""
