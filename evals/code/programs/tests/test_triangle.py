from triangle import choose, drawing, row


def test_first_rows():
    assert row(0) == [1]
    assert row(1) == [1, 1]
    assert row(4) == [1, 4, 6, 4, 1]


def test_choose():
    assert choose(5, 2) == 10
    assert choose(6, 3) == 20
    assert choose(49, 6) == 13983816


def test_choose_all_or_none():
    assert choose(4, 0) == 1
    assert choose(4, 4) == 1


def test_choose_too_many():
    assert choose(3, 4) == 0
    assert choose(3, -1) == 0


def test_both_agree():
    assert [choose(7, k) for k in range(8)] == row(7)


def test_drawing():
    assert drawing(3) == ["  1", " 1 1", "1 2 1"]
    assert drawing(0) == []
