from tree import height, insert, next_above, values


def grown(*numbers):
    tree = None
    for number in numbers:
        tree = insert(tree, number)
    return tree


def test_values_are_sorted():
    assert values(grown(5, 2, 8, 1, 9, 3)) == [1, 2, 3, 5, 8, 9]
    assert values(None) == []


def test_repeated_values():
    assert values(grown(4, 4, 2, 4, 2)) == [2, 4]


def test_height():
    assert height(None) == 0
    assert height(grown(1)) == 1
    assert height(grown(5, 2, 8, 1)) == 3
    assert height(grown(1, 2, 3, 4)) == 4


def test_sides():
    tree = grown(5, 2, 8)
    assert (tree.value, tree.left.value, tree.right.value) == (5, 2, 8)


def test_next_above():
    tree = grown(5, 2, 8, 1, 9, 3)
    assert [next_above(tree, n) for n in (0, 1, 3, 4, 5, 8)] == [1, 2, 5, 5, 8, 9]
    assert next_above(tree, 9) is None
    assert next_above(None, 1) is None
