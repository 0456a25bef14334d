from run_length import decode, encode, shorten


def test_encode():
    assert encode("aaabcc") == [("a", 3), ("b", 1), ("c", 2)]


def test_same_letter_in_two_runs():
    assert encode("abba") == [("a", 1), ("b", 2), ("a", 1)]


def test_empty():
    assert encode("") == []
    assert decode([]) == ""
    assert shorten("") == ""


def test_decode():
    assert decode([("x", 2), ("y", 1), ("x", 3)]) == "xxyxxx"


def test_shorten():
    assert shorten("aaabcc") == "a3bc2"
    assert shorten("zz") == "z2"
