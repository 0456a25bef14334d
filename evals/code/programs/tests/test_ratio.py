from ratio import Ratio, common_divisor


def test_common_divisor():
    assert common_divisor(12, 18) == 6
    assert common_divisor(7, 5) == 1
    assert common_divisor(9, 0) == 9


def test_lowest_terms():
    assert Ratio(6, 8).text() == "3/4"
    assert Ratio(8, 4).text() == "2"
    assert Ratio(0, 5).text() == "0"


def test_negative():
    assert Ratio(1, -2).text() == "-1/2"
    assert Ratio(-3, -6).text() == "1/2"


def test_zero_below():
    try:
        Ratio(1, 0)
    except ValueError:
        return
    raise AssertionError("no error")


def test_plus():
    assert Ratio(1, 2).plus(Ratio(1, 3)).text() == "5/6"
    assert Ratio(3, 4).plus(Ratio(1, 4)).text() == "1"


def test_times():
    assert Ratio(2, 3).times(Ratio(5, 4)).text() == "5/6"


def test_is_less():
    assert Ratio(1, 3).is_less(Ratio(1, 2))
    assert not Ratio(2, 3).is_less(Ratio(1, 2))
    assert not Ratio(1, 2).is_less(Ratio(2, 4))
