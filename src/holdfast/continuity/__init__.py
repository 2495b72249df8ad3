"""Continuity: several servers process every request, the first answer wins, and a server that fell behind catches up."""
