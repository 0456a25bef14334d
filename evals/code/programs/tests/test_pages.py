from pages import collapse, expand


def test_expand():
    assert expand("1-3,7") == [1, 2, 3, 7]
    assert expand("12") == [12]


def test_expand_sorts_and_drops_repeated_pages():
    assert expand("5, 1-2 ,2-3") == [1, 2, 3, 5]


def test_nothing():
    assert expand("") == []
    assert collapse([]) == ""


def test_collapse():
    assert collapse([1, 2, 3, 7]) == "1-3,7"
    assert collapse([4, 5]) == "4-5"
    assert collapse([9]) == "9"


def test_collapse_sorts_and_drops_repeated_pages():
    assert collapse([8, 2, 1, 2, 6, 9]) == "1-2,6,8-9"
    assert collapse([900, 5, 70]) == "5,70,900"
