"""The short way of plain requests: read and answered on their connection, without the turns of ASGI."""
