"""The cluster: where destinations are among message managers, who is silent, who takes over, how transactions end. Pure."""
