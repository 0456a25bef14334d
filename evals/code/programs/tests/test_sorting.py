from sorting import merge, merge_sort, smallest


def test_merge():
    assert merge([1, 4, 6], [2, 3, 7, 8]) == [1, 2, 3, 4, 6, 7, 8]
    assert merge([], [1]) == [1]
    assert merge([1], []) == [1]


def test_equal_items_of_the_left_come_first():
    assert [str(item) for item in merge([1, 2], [1.0, 2.0])] == ["1", "1.0", "2", "2.0"]


def test_merge_sort():
    assert merge_sort([5, 2, 9, 1, 5, 6]) == [1, 2, 5, 5, 6, 9]
    assert merge_sort([2, 1]) == [1, 2]


def test_short_lists():
    assert merge_sort([]) == []
    assert merge_sort([3]) == [3]


def test_list_stays_as_it_was():
    items = [3, 1, 2]
    assert merge_sort(items) == [1, 2, 3]
    assert items == [3, 1, 2]


def test_smallest():
    assert smallest([5, 2, 9, 1, 7], 3) == [1, 2, 5]
    assert smallest([2, 1], 5) == [1, 2]
    assert smallest([4, 4, 4, 1], 2) == [1, 4]
    assert smallest([1, 2], 0) == []
