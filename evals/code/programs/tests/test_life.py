from life import around, parse, step


def test_around():
    cells = around((2, 5))
    assert len(cells) == 8
    assert (2, 5) not in cells
    assert min(cells) == (1, 4)
    assert max(cells) == (3, 6)


def test_parse():
    assert parse(["*.", ".*", "*."]) == {(0, 0), (1, 1), (2, 0)}
    assert parse([]) == set()


def test_lonely_cells_die():
    assert step({(0, 0)}) == set()
    assert step({(0, 0), (0, 1)}) == set()


def test_block_stays():
    block = parse(["**", "**"])
    assert step(block) == block


def test_blinker_turns():
    flat = parse(["...", "***", "..."])
    upright = parse([".*.", ".*.", ".*."])
    assert step(flat) == upright
    assert step(upright) == flat


def test_crowded_cell_dies():
    assert (1, 1) not in step(parse([".*.", "***", ".*."]))
