from settings import parse, value_of


def test_values():
    assert value_of("Yes") is True
    assert value_of("no") is False
    assert value_of("-12") == -12
    assert value_of("1.5") == "1.5"
    assert value_of("No Way") == "No Way"


def test_sections():
    assert parse("a = 1\n[ x ]\nb = two\nc=3 ") == {"": {"a": 1}, "x": {"b": "two", "c": 3}}


def test_section_that_comes_back():
    assert parse("[x]\na=1\n[y]\n[x]\nb=2") == {"": {}, "x": {"a": 1, "b": 2}, "y": {}}


def test_skipped_lines():
    assert parse("\n# note\n  \n a = b = c") == {"": {"a": "b = c"}}


def test_wrong_line():
    for text, number in (("a = 1\nwhat", 2), ("[x", 1), ("x]", 1)):
        try:
            parse(text)
        except ValueError as error:
            found = error.args
        else:
            found = ()
        assert found == (number,)
