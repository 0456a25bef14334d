from words import longest, most_common, words_of

TEXT = "The cat saw the dog. The dog ran!"


def test_words():
    assert words_of(TEXT) == ["the", "cat", "saw", "the", "dog", "the", "dog", "ran"]


def test_signs_alone_are_no_words():
    assert words_of("- a ... (b)") == ["-", "a", "b"]
    assert words_of("!?") == []


def test_most_common():
    assert most_common(TEXT, 2) == [("the", 3), ("dog", 2)]


def test_equals_are_sorted():
    assert most_common("b a c a b d", 4) == [("a", 2), ("b", 2), ("c", 1), ("d", 1)]


def test_fewer_words_than_asked_for():
    assert most_common("x", 5) == [("x", 1)]
    assert most_common("x y", 0) == []


def test_longest():
    assert longest("a bbb cc ddd") == "bbb"
    assert longest("") == ""
