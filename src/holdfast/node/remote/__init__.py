"""The message manager of another process, as a client manager sees it: asked over the bus, or judged by what passed here."""
