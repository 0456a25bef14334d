"""Ways through a maze of text lines, in which '#' is a wall."""

from collections import deque


def neighbours(maze, place):
    """The open places above, below, left and right of a place; a place is (row, column)."""
    row, column = place
    found = []
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        r, c = row + down, column + right
        if 0 <= r < len(maze) and 0 <= c < len(maze[0]) and maze[r][c] != "#":
            found.append((r, c))
    return found


def shortest(maze, start, goal):
    """The number of steps of the shortest way from start to goal, or None if there is no way."""
    steps = {start: 0}
    waiting = deque([start])
    while waiting:
        place = waiting.popleft()
        if place == goal:
            return steps[place]
        for near in neighbours(maze, place):
            if near not in steps:
                steps[near] = steps[place] + 1
                waiting.append(near)
    return None
