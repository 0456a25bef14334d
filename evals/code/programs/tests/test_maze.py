from maze import neighbours, shortest

MAZE = [
    "..#.",
    ".##.",
    "....",
    "#...",
]


def test_start_is_goal():
    assert shortest(MAZE, (0, 0), (0, 0)) == 0


def test_around_a_wall():
    assert shortest(MAZE, (0, 0), (0, 3)) == 7
    assert shortest(MAZE, (0, 1), (3, 1)) == 5


def test_open_field():
    assert shortest(["...", "...", "..."], (0, 0), (2, 2)) == 4
    assert shortest(["....."], (0, 4), (0, 0)) == 4
    assert shortest(["....", "....", "...."], (1, 0), (1, 1)) == 1
    assert shortest(["....", "....", "...."], (1, 1), (2, 3)) == 3


def test_no_way():
    assert shortest([".#.", ".#.", ".#."], (0, 0), (0, 2)) is None


def test_neighbours():
    assert sorted(neighbours(MAZE, (0, 0))) == [(0, 1), (1, 0)]
    assert sorted(neighbours(MAZE, (3, 3))) == [(2, 3), (3, 2)]
    assert sorted(neighbours(["...", "...", "..."], (1, 1))) == [(0, 1), (1, 0), (1, 2), (2, 1)]
