from lookup import count_between, first_at_least, index_of

ITEMS = [1, 3, 3, 3, 7, 9]


def test_first_at_least():
    assert [first_at_least(ITEMS, n) for n in (0, 1, 2, 3, 4, 9, 10)] == [0, 0, 1, 1, 4, 5, 6]


def test_empty_list():
    assert first_at_least([], 5) == 0
    assert index_of([], 5) == -1


def test_index_of():
    assert index_of(ITEMS, 3) == 1
    assert index_of(ITEMS, 9) == 5
    assert index_of(ITEMS, 1) == 0


def test_not_there():
    assert index_of(ITEMS, 4) == -1
    assert index_of(ITEMS, 12) == -1


def test_count_between():
    assert count_between(ITEMS, 3, 7) == 3
    assert count_between(ITEMS, 0, 100) == 6
    assert count_between(ITEMS, 7, 3) == 0
