from durations import to_seconds, to_text


def fails(text):
    try:
        to_seconds(text)
    except ValueError:
        return True
    return False


def test_single_units():
    assert to_seconds("90s") == 90
    assert to_seconds("2m") == 120
    assert to_seconds("1d") == 86400


def test_several_units():
    assert to_seconds("1h30m") == 5400
    assert to_seconds("1d2h3m4s") == 93784


def test_not_a_length_of_time():
    assert fails("")
    assert fails("12")
    assert fails("h")
    assert fails("5x")
    assert fails("1hm")


def test_to_text():
    assert to_text(5400) == "1h30m"
    assert to_text(93784) == "1d2h3m4s"
    assert to_text(59) == "59s"
    assert to_text(60) == "1m"


def test_nothing():
    assert to_text(0) == "0s"
