from tokens import number_end, tokenize


def texts(text):
    return [token for _, token in tokenize(text)]


def test_kinds():
    assert tokenize("x1+20") == [("name", "x1"), ("sign", "+"), ("number", "20")]


def test_spaces_are_skipped():
    assert texts(" ( a * 3 ) ") == ["(", "a", "*", "3", ")"]


def test_decimal_numbers():
    assert texts("3.25/2") == ["3.25", "/", "2"]
    assert number_end("1.5.2", 0) == 3
    assert number_end("a12", 1) == 3


def test_empty():
    assert tokenize("") == []


def test_second_point_is_an_error():
    for text in ("1.2.3", "a?b"):
        try:
            tokenize(text)
        except ValueError:
            continue
        raise AssertionError(text)


def test_names_end_where_letters_end():
    assert texts("ab-c9d") == ["ab", "-", "c9d"]
