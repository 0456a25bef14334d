from spelling import distance, nearest


def test_same_word():
    assert distance("house", "house") == 0
    assert distance("", "") == 0


def test_one_change():
    assert distance("cat", "cut") == 1
    assert distance("cat", "cart") == 1
    assert distance("cart", "cat") == 1


def test_several_changes():
    assert distance("kitten", "sitting") == 3
    assert distance("sunday", "saturday") == 3
    assert distance("ab", "ba") == 2


def test_empty_word():
    assert distance("", "abc") == 3
    assert distance("abc", "") == 3


def test_nearest():
    assert nearest("aple", ["pear", "apply", "apple"]) == "apple"
    assert nearest("bat", ["cat", "hat"]) == "cat"


def test_limit():
    assert nearest("xyz", ["abc"]) is None
    assert nearest("abx", ["ayz"]) == "ayz"
    assert nearest("abx", ["ayz"], limit=1) is None
    assert nearest("a", []) is None
