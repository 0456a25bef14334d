from spiral import ring_sum, spiral, turned

SQUARE = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_square():
    assert spiral(SQUARE) == [1, 2, 3, 6, 9, 8, 7, 4, 5]


def test_other_shapes():
    assert spiral([[1, 2, 3, 4]]) == [1, 2, 3, 4]
    assert spiral([[1], [2], [3]]) == [1, 2, 3]
    assert spiral([[1, 2], [3, 4], [5, 6]]) == [1, 2, 4, 6, 5, 3]


def test_nothing():
    assert spiral([]) == []
    assert turned([]) == []


def test_turned():
    assert turned([[1, 2], [3, 4], [5, 6]]) == [[2, 4, 6], [1, 3, 5]]


def test_ring_sum():
    assert ring_sum(SQUARE, 0) == 40
    assert ring_sum(SQUARE, 1) == 5
    assert ring_sum(SQUARE, 2) == 0
    assert ring_sum([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], 1) == 13
    assert ring_sum([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], 0) == 55
    assert ring_sum([[1, 1, 1], [1, 7, 1], [1, 8, 1], [1, 9, 1], [1, 1, 1]], 1) == 24
