"""Running rules: read sources, keep states, tick, and do actions, over one client."""
