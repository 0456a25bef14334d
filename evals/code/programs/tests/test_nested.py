from nested import depth, flatten, weighted_sum


def test_flatten():
    assert flatten([1, [2, [3, 4]], [[5]], 6]) == [1, 2, 3, 4, 5, 6]


def test_flatten_nothing():
    assert flatten([]) == []
    assert flatten([[], [[]]]) == []


def test_texts_stay_whole():
    assert flatten(["ab", ["cd"]]) == ["ab", "cd"]


def test_depth():
    assert depth(7) == 0
    assert depth([]) == 1
    assert depth([1, 2]) == 1
    assert depth([1, [2, [3]], [4]]) == 3


def test_weighted_sum():
    assert weighted_sum([1, 2, 3]) == 6
    assert weighted_sum([1, [2, [3]]]) == 14
    assert weighted_sum([[1, 1], 2, [1]]) == 8
    assert weighted_sum([]) == 0
