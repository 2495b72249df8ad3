"""What a member of a cluster knows: transactions over several managers, senders of commands, revisions of destinations."""
