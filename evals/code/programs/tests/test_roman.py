from roman import from_roman, to_roman


def raises(number):
    try:
        to_roman(number)
    except ValueError:
        return True
    return False


def test_single_letters():
    assert [to_roman(n) for n in (1, 5, 10, 50, 100, 500, 1000)] == list("IVXLCDM")


def test_repeated_and_subtracted_letters():
    assert to_roman(3) == "III"
    assert to_roman(1994) == "MCMXCIV"
    assert to_roman(48) == "XLVIII"


def test_limits():
    assert to_roman(3999) == "MMMCMXCIX"
    assert raises(0)
    assert raises(4000)


def test_reading():
    assert from_roman("MCMXCIV") == 1994
    assert from_roman("") == 0
    assert from_roman("xlii") == 42


def test_there_and_back():
    assert all(from_roman(to_roman(n)) == n for n in (4, 8, 9, 14, 49, 90, 399, 444, 2024))
