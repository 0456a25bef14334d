from versions import compare, newest, parse


def test_parse():
    assert parse("1.10.2") == ([1, 10, 2], "")
    assert parse("2.0-beta") == ([2], "beta")
    assert parse("0") == ([], "")


def test_numbers_are_not_texts():
    assert compare("1.9", "1.10") == -1
    assert compare("1.10", "1.9") == 1


def test_longer_is_newer():
    assert compare("1.2", "1.2.1") == -1
    assert compare("1.2.0", "1.2") == 0


def test_tags():
    assert compare("1.0-beta", "1.0") == -1
    assert compare("1.0", "1.0-beta") == 1
    assert compare("1.0-alpha", "1.0-beta") == -1
    assert compare("1.0-rc", "1.0-beta") == 1
    assert compare("1.0-rc", "1.0-rc") == 0


def test_newest():
    assert newest(["1.2", "1.10", "1.10-rc", "1.9"]) == "1.10"
    assert newest(["1.0", "1"]) == "1.0"
    assert newest([]) is None
