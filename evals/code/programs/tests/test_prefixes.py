from prefixes import Words

SOME = Words(["tea", "team", "ten", "to", "inn", "in"])


def test_has():
    assert SOME.has("tea")
    assert SOME.has("team")
    assert SOME.has("in")


def test_prefix_is_no_word():
    assert not SOME.has("te")
    assert not SOME.has("")
    assert not SOME.has("teams")
    assert not SOME.has("x")


def test_starting():
    assert SOME.starting("te") == ["tea", "team", "ten"]
    assert SOME.starting("in") == ["in", "inn"]
    assert SOME.starting("team") == ["team"]


def test_starting_with_nothing():
    assert SOME.starting("") == ["in", "inn", "tea", "team", "ten", "to"]


def test_no_such_prefix():
    assert SOME.starting("tx") == []
    assert Words().starting("a") == []
