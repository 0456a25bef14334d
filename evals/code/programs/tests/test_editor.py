from editor import Editor


def test_insert():
    editor = Editor("held")
    editor.insert(3, "lo wor")
    assert editor.text == "hello word"
    editor.insert(99, "!")
    assert editor.text == "hello word!"


def test_delete():
    editor = Editor("abcdef")
    editor.delete(1, 3)
    assert editor.text == "adef"


def test_deleting_nothing_is_no_change():
    editor = Editor("abc")
    editor.delete(2, 2)
    editor.delete(2, 1)
    assert editor.text == "abc"
    assert editor.undo() is False


def test_undo():
    editor = Editor()
    editor.insert(0, "b")
    editor.insert(0, "a")
    assert editor.undo() is True
    assert editor.text == "b"
    assert editor.undo() is True
    assert editor.text == ""
    assert editor.undo() is False


def test_redo():
    editor = Editor("x")
    editor.change("y")
    editor.change("z")
    editor.undo()
    editor.undo()
    assert editor.redo() is True
    assert editor.text == "y"
    assert editor.undo() is True
    assert editor.text == "x"
    editor.redo()
    editor.redo()
    assert editor.text == "z"
    assert editor.redo() is False


def test_change_ends_redo():
    editor = Editor("x")
    editor.change("y")
    editor.undo()
    editor.change("w")
    assert editor.redo() is False
    assert editor.text == "w"
