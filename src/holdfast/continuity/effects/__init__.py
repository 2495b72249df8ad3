"""Effects: what servers ask of others is carried out once, recorded, and given to every server alike."""
