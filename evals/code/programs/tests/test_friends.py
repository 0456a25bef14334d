from friends import Groups


def met(*pairs):
    groups = Groups("abcdef")
    for a, b in pairs:
        groups.meet(a, b)
    return groups


def test_everyone_is_alone_at_first():
    groups = met()
    assert groups.count() == 6
    assert groups.members("c") == ["c"]


def test_meeting():
    groups = met("ab", "cd")
    assert groups.count() == 4
    assert groups.members("b") == ["a", "b"]
    assert groups.meet("b", "d") is True
    assert groups.members("a") == ["a", "b", "c", "d"]


def test_meeting_again():
    groups = met("ab", "bc")
    assert groups.meet("a", "c") is False
    assert groups.count() == 4


def test_first_leads():
    assert met("ab").find("b") == "a"
    assert met("ba").find("a") == "b"


def test_larger_group_leads():
    assert met("ab", "ca").find("c") == "a"
    assert met("ab", "cd", "ce", "ac").find("b") == "c"


def test_size():
    groups = met("ab", "cd", "ac")
    assert groups.size[groups.find("d")] == 4
    assert met("ab", "cd", "bd").members("d") == ["a", "b", "c", "d"]
    assert met("ab", "cd", "bd", "ef", "fb").find("e") == "a"
