from islands import coast, flood, sizes

MAP = [
    "xx..",
    "x..x",
    "..xx",
    "x...",
]


def test_sizes():
    assert sizes(MAP) == [3, 3, 1]
    assert sizes(["xxx", "..x", "xxx"]) == [7]
    assert sizes(["..x", "xxx", "..x"]) == [5]


def test_corners_do_not_touch():
    assert sizes(["x.", ".x"]) == [1, 1]


def test_water_only():
    assert sizes(["..", ".."]) == []
    assert sizes([]) == []
    assert coast([".."]) == 0


def test_flood():
    land = {(0, 0), (0, 1), (5, 5)}
    assert flood(land, (2, 2)) == 0
    assert flood(land, (0, 1)) == 2
    assert land == {(5, 5)}
    assert flood({(2, 3), (3, 3), (4, 3)}, (4, 3)) == 3
    assert flood({(2, 3), (2, 4), (2, 5)}, (2, 5)) == 3


def test_coast():
    assert coast(["x"]) == 4
    assert coast(["xx"]) == 6
    assert coast(["xx", "xx"]) == 8
    assert coast(MAP) == 20
    assert coast(["x.x", "..."]) == 8
    assert coast(["x.", ".."]) == 4
    assert coast(["..x", "x.."]) == 8
