from wrapping import centred, wrap


def test_lines_are_filled():
    assert wrap("one two three four", 9) == ["one two", "three", "four"]
    assert wrap("aa bb cc dd", 5) == ["aa bb", "cc dd"]


def test_everything_on_one_line():
    assert wrap("a b c", 5) == ["a b c"]


def test_long_word():
    assert wrap("a extraordinary b", 4) == ["a", "extraordinary", "b"]


def test_no_words():
    assert wrap("", 10) == []
    assert wrap("   ", 10) == []


def test_spaces_are_made_single():
    assert wrap("  a   b ", 10) == ["a b"]


def test_centred():
    assert centred(["ab", "abc", "a"], 6) == ["  ab", " abc", "  a"]
    assert centred(["toolong"], 3) == ["toolong"]
    assert centred([], 3) == []
