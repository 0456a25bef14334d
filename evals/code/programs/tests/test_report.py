from report import is_number, table, widths


def test_widths():
    assert widths([["a", "bbb"], ["cc", "d"]]) == [2, 3]
    assert widths([["a"], ["b", "cc"]]) == [1, 2]
    assert widths([]) == []


def test_is_number():
    assert is_number("12")
    assert is_number("-3.5")
    assert not is_number("1.2.3")
    assert not is_number("5-")
    assert not is_number("")
    assert not is_number("x1")


def test_texts_on_the_left():
    assert table([["a", "x"], ["bbb", "y"]]) == ["a    x", "bbb  y"]


def test_numbers_on_the_right():
    assert table([["pen", "5"], ["cup", "120"]]) == ["pen    5", "cup  120"]


def test_no_spaces_at_the_end():
    assert table([["a", "b"], ["c", "dddd"]]) == ["a  b", "c  dddd"]


def test_nothing():
    assert table([]) == []
