"""Commands about servers, destinations, users, journals and pipelines."""
