from matrix import multiply, power, transpose


def test_transpose():
    assert transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]
    assert transpose([]) == []


def test_multiply():
    assert multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]) == [[19, 22], [43, 50]]


def test_multiply_other_sizes():
    assert multiply([[1, 2, 3]], [[4], [5], [6]]) == [[32]]


def test_sizes_must_fit():
    try:
        multiply([[1, 2]], [[3, 4]])
    except ValueError:
        return
    raise AssertionError("no error")


def test_power():
    assert power([[1, 1], [1, 0]], 5) == [[8, 5], [5, 3]]
    assert power([[2, 3], [4, 5]], 0) == [[1, 0], [0, 1]]
    assert power([[2, 3], [4, 5]], 1) == [[2, 3], [4, 5]]
