"""The message manager: follows its channel, applies commands, and acts on the effects."""
