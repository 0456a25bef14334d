from csv_line import join_line, split_line


def test_plain():
    assert split_line("a,b,c") == ["a", "b", "c"]


def test_empty_values():
    assert split_line(",x,") == ["", "x", ""]
    assert split_line("") == [""]


def test_quoted_comma():
    assert split_line('1,"a,b",2') == ["1", "a,b", "2"]


def test_doubled_quote():
    assert split_line('"say ""hi""",x') == ['say "hi"', "x"]


def test_join():
    assert join_line(["a", "b,c", 'd"e']) == 'a,"b,c","d""e"'
    assert join_line(["plain"]) == "plain"


def test_there_and_back():
    values = ["", "a b", ",", '"', 'x","y']
    assert split_line(join_line(values)) == values
