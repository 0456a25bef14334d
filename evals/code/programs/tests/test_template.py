from template import counted, fill, join_words


def test_fill():
    assert fill("Hello {name}!", {"name": "Ann"}) == "Hello Ann!"
    assert fill("{a}{b}-{ a }", {"a": 1, "b": 2}) == "12-1"


def test_no_names():
    assert fill("plain", {}) == "plain"
    assert fill("", {}) == ""


def test_doubled_braces():
    assert fill("{{x}} {x}", {"x": 5}) == "{x} 5"
    assert fill("a}}", {}) == "a}"


def test_unknown_name():
    try:
        fill("{y}", {"x": 5})
    except KeyError:
        return
    raise AssertionError("no error")


def test_join_words():
    assert join_words(["a", "b", "c"]) == "a, b and c"
    assert join_words(["a", "b"], last="or") == "a or b"
    assert join_words(["a"]) == "a"
    assert join_words([]) == ""


def test_counted():
    assert counted(1, "cup") == "1 cup"
    assert counted(3, "cup") == "3 cups"
    assert counted(0, "box") == "0 boxes"
    assert counted(2, "glass") == "2 glasses"
