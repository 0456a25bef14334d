from spans import covered, gaps, merge


def test_overlapping_spans_become_one():
    assert merge([(5, 9), (1, 6)]) == [(1, 9)]


def test_touching_spans_become_one():
    assert merge([(1, 3), (3, 5)]) == [(1, 5)]
    assert merge([(0, 1), (4, 6), (5, 8)]) == [(0, 1), (4, 8)]


def test_span_within_a_span():
    assert merge([(1, 10), (2, 4), (12, 13)]) == [(1, 10), (12, 13)]


def test_empty_spans_are_dropped():
    assert merge([(4, 4), (7, 2)]) == []


def test_covered():
    assert covered([(0, 4), (2, 6), (10, 11)]) == 7
    assert covered([]) == 0


def test_gaps():
    assert gaps([(8, 9), (0, 2), (4, 5)]) == [(2, 4), (5, 8)]
    assert gaps([(1, 5)]) == []
