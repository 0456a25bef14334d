from anagrams import can_spell, groups, letters_of


def test_letters():
    assert letters_of("Nag a ram!") == "aaagmnr"
    assert letters_of("") == ""


def test_groups():
    assert groups(["tea", "dog", "Eat", "ate"]) == [["tea", "Eat", "ate"]]


def test_longest_group_first():
    words = ["no", "on", "stop", "post", "tops", "x"]
    assert groups(words) == [["stop", "post", "tops"], ["no", "on"]]


def test_no_groups():
    assert groups(["a", "b"]) == []


def test_can_spell():
    assert can_spell("deed", "eeddx")
    assert can_spell("", "abc")


def test_cannot_spell():
    assert not can_spell("deed", "edd")
    assert not can_spell("cab", "ab")
