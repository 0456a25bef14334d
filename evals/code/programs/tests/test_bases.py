from bases import digit_sum, from_base, to_base


def test_to_base():
    assert to_base(10, 2) == "1010"
    assert to_base(255, 16) == "ff"
    assert to_base(35, 36) == "z"


def test_zero_and_negative():
    assert to_base(0, 2) == "0"
    assert to_base(-5, 2) == "-101"
    assert from_base("-ff", 16) == -255


def test_from_base():
    assert from_base("1010", 2) == 10
    assert from_base("FF", 16) == 255
    assert from_base("0", 8) == 0


def test_no_digit_of_the_base():
    for text, base in (("12", 2), ("8", 8), ("!", 36)):
        try:
            from_base(text, base)
        except ValueError:
            continue
        raise AssertionError(text)


def test_digit_sum():
    assert digit_sum(1234) == 10
    assert digit_sum(7) == 7
    assert digit_sum(10) == 1
    assert digit_sum(255, 2) == 8
