"""The bus: how client managers and message managers talk beside the channel."""
