from backpack import best_value, greedy

THINGS = [(1, 1), (3, 4), (4, 5), (5, 7)]


def test_best_value():
    assert best_value(THINGS, 7) == 9
    assert best_value(THINGS, 5) == 7
    assert best_value(THINGS, 13) == 17


def test_each_thing_once():
    assert best_value([(2, 3)], 10) == 3
    assert best_value([(1, 5), (3, 6)], 3) == 6


def test_nothing_fits():
    assert best_value([(5, 10)], 4) == 0
    assert best_value([], 4) == 0
    assert best_value([(5, 10)], 0) == 0


def test_exact_fit():
    assert best_value([(5, 10)], 5) == 10
    assert greedy([(5, 10)], 5) == [(5, 10)]


def test_greedy():
    assert greedy(THINGS, 7) == [(5, 7), (1, 1)]
    assert greedy([(2, 2), (3, 9), (1, 2)], 4) == [(3, 9), (1, 2)]
    assert greedy([(9, 1), (1, 1)], 2) == [(1, 1)]
    assert greedy([(6, 6), (1, 3)], 6) == [(1, 3)]
