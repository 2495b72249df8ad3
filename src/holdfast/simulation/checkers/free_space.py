"""Free space: when everything is confirmed and all old sessions are gone, no entry of the channel is needed any more (rule 8).

nothing waits     no backlog has an event
nothing held      no batch is held back for the order of its producer, no part for a commit
nothing pinned    no assembly and no large event keeps its segments
nothing carried   no body has a copy that somebody may ask for
"""

from __future__ import annotations

from holdfast.destination.directory import Directory


def still_needed(directory: Directory) -> list[str]:
    """Return what keeps space, in words; nothing when all of it is free."""
    bodies = directory.bodies
    found = [f"{backlog.waiting} events wait in {key}" for key, backlog in directory.backlogs().items() if backlog.waiting]
    found += [f"assembly {each.name} of session {each.session} has {each.count} parts" for each in directory.assemblies]
    found += [f"the large event of entry {entry} has {len(large.fragments)} fragments" for entry, large in bodies.larges.items()]
    found += [f"entry {entry} is said to lie in entry {place}" for entry, place in bodies.carried.items()]
    found += [f"batches are held back, the oldest in entry {bodies.oldest_held()}"] if bodies.has_held else []
    oldest = directory.oldest_needed()
    if oldest <= directory.applied:
        found.append(f"entry {oldest} is needed, and {directory.applied} is the newest")
    return found
