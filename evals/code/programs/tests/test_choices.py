from choices import adding_up, orders, subsets


def test_subsets():
    assert subsets([1, 2, 3], 2) == [[1, 2], [1, 3], [2, 3]]
    assert subsets([1, 2, 3], 1) == [[1], [2], [3]]


def test_all_or_none():
    assert subsets([1, 2, 3], 3) == [[1, 2, 3]]
    assert subsets([1, 2], 0) == [[]]


def test_too_many():
    assert subsets([1, 2], 3) == []


def test_orders():
    assert orders(["a", "b", "c"]) == [
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["b", "a", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["c", "b", "a"],
    ]
    assert orders([]) == [[]]


def test_adding_up():
    assert adding_up([3, 34, 4, 12, 5, 2], 9)
    assert adding_up([7], 7)
    assert adding_up([], 0)


def test_not_adding_up():
    assert not adding_up([3, 34, 4, 12], 6)
    assert not adding_up([], 4)
