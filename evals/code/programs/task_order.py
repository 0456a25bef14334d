"""Putting tasks in an order in which they can be done."""


def order(needs):
    """All tasks so that each comes after everything it needs.

    `needs` maps a task to the tasks that must be done before it. Tasks that are ready at the same
    time are sorted by name. ValueError if tasks wait for each other.
    """
    missing = {}
    for task, before in needs.items():
        missing.setdefault(task, set()).update(before)
        for other in before:
            missing.setdefault(other, set())
    done = []
    while missing:
        ready = sorted(task for task, before in missing.items() if not before)
        if not ready:
            raise ValueError("tasks wait for each other")
        for task in ready:
            del missing[task]
            done.append(task)
        for before in missing.values():
            before.difference_update(ready)
    return done


def all_needed(needs, task, seen=None):
    """Everything that must be done before a task, directly or not, sorted."""
    seen = set() if seen is None else seen
    for other in needs.get(task, []):
        if other not in seen:
            seen.add(other)
            all_needed(needs, other, seen)
    return sorted(seen)
