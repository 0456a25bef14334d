from averages import median, modes, moving


def test_median():
    assert median([5, 1, 3]) == 3
    assert median([4, 1, 3, 2]) == 2.5
    assert median([7]) == 7
    assert median([9, 1, 8, 2, 6]) == 6


def test_median_of_nothing():
    try:
        median([])
    except ValueError:
        return
    raise AssertionError("no error")


def test_modes():
    assert modes([3, 1, 3, 2, 1]) == [1, 3]
    assert modes([2, 2, 5]) == [2]
    assert modes([]) == []


def test_moving():
    assert moving([1, 2, 3, 4], 2) == [1.5, 2.5, 3.5]
    assert moving([3, 6, 9, 0, 3], 3) == [6, 5, 4]


def test_moving_width_one():
    assert moving([4, 5], 1) == [4, 5]


def test_moving_too_few():
    assert moving([1, 2], 3) == []
    assert moving([1, 2, 3], 3) == [2]
