from noughts import lines_of, turn, winner


def test_lines():
    assert lines_of(["ab", "cd"]) == ["ab", "cd", "ac", "bd", "ad", "bc"]


def test_row_and_column():
    assert winner(["...", "xxx", "oo."]) == "x"
    assert winner(["xo.", "xo.", ".ox"]) == "o"


def test_diagonals():
    assert winner(["xo.", "ox.", "..x"]) == "x"
    assert winner(["xxo", "xo.", "o.."]) == "o"


def test_draw():
    assert winner(["xox", "oxo", "oxo"]) == "draw"


def test_not_over():
    assert winner(["...", "...", "..."]) is None
    assert winner(["xox", "oxo", "ox."]) is None
    assert winner(["xoo", "...", "xx."]) is None
    assert winner(["x..", "o..", "..."]) is None


def test_full_board_with_winner():
    assert winner(["xxx", "oox", "oxo"]) == "x"


def test_turn():
    assert turn(["...", "...", "..."]) == "x"
    assert turn(["x..", "...", "..."]) == "o"
    assert turn(["x..", ".o.", "..."]) == "x"
