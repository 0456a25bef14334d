from query import decode, is_hex, parse


def test_plain():
    assert parse("a=1&b=2") == {"a": ["1"], "b": ["2"]}


def test_repeated_names():
    assert parse("a=2&b=x&a=1") == {"a": ["2", "1"], "b": ["x"]}


def test_name_alone_and_empty_parts():
    assert parse("a&&b=") == {"a": [""], "b": [""]}
    assert parse("") == {}


def test_second_equals_sign_is_part_of_the_value():
    assert parse("a=b=c") == {"a": ["b=c"]}


def test_decode():
    assert decode("two+words%21") == "two words!"
    assert decode("%41%4a") == "AJ"
    assert parse("a%3d=%26") == {"a=": ["&"]}


def test_broken_codes_stay():
    assert decode("100%") == "100%"
    assert decode("%zz%4") == "%zz%4"


def test_is_hex():
    assert is_hex("fF")
    assert not is_hex("f")
    assert not is_hex("fff")
    assert not is_hex("g0")
