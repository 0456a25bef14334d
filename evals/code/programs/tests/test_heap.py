from heap import Heap


def drained(heap):
    return [heap.pop() for _ in range(len(heap.items))]


def test_smallest_first():
    heap = Heap([5, 2, 8, 1])
    assert heap.pop() == 1
    assert heap.pop() == 2


def test_sorts():
    assert drained(Heap([9, 4, 7, 1, 8, 2, 6, 3, 5, 0])) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert drained(Heap(range(12, 0, -1))) == list(range(1, 13))
    assert drained(Heap([3, 1, 2])) == [1, 2, 3]
    assert drained(Heap([1, 9, 2, 10, 11, 3, 4])) == [1, 2, 3, 4, 9, 10, 11]


def test_equal_items():
    assert drained(Heap([2, 1, 2, 1, 2])) == [1, 1, 2, 2, 2]


def test_every_parent_is_not_larger():
    heap = Heap([7, 6, 5, 4, 3, 2, 1, 8, 0])
    items = heap.items
    assert all(items[(place - 1) // 2] <= items[place] for place in range(1, len(items)))


def test_push_after_pop():
    heap = Heap([4, 6])
    assert heap.pop() == 4
    heap.push(3)
    assert drained(heap) == [3, 6]


def test_empty():
    try:
        Heap().pop()
    except IndexError:
        return
    raise AssertionError("no error")
