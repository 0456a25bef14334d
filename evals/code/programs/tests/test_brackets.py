from brackets import depth, first_problem


def test_fitting():
    assert first_problem("a(b[c]{d})") == -1
    assert first_problem("") == -1


def test_closed_without_opening():
    assert first_problem("ab)") == 2
    assert first_problem("())(") == 2


def test_wrong_kind():
    assert first_problem("(a]") == 2
    assert first_problem("{(})") == 2


def test_left_open():
    assert first_problem("(a(b)") == 0
    assert first_problem("x[[") == 2


def test_depth():
    assert depth("(a)(b)") == 1
    assert depth("({[]})()") == 3
    assert depth("none") == 0
