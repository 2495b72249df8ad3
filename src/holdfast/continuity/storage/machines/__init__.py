"""The machines of storage: what a write does, what a place does next, who is asked, and who answers. Pure."""
