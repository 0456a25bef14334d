from task_order import all_needed, order

HOUSE = {"roof": ["walls"], "walls": ["floor"], "paint": ["walls", "colour"], "door": ["walls"]}


def test_chain():
    assert order({"c": ["b"], "b": ["a"]}) == ["a", "b", "c"]


def test_ready_tasks_are_sorted():
    assert order(HOUSE) == ["colour", "floor", "walls", "door", "paint", "roof"]
    assert order({"z": [], "y": [], "x": []}) == ["x", "y", "z"]


def test_nothing():
    assert order({}) == []


def test_circle():
    for needs in ({"a": ["b"], "b": ["a"]}, {"a": ["a"]}):
        try:
            order(needs)
        except ValueError:
            continue
        raise AssertionError("no error")


def test_all_needed():
    assert all_needed(HOUSE, "paint") == ["colour", "floor", "walls"]
    assert all_needed(HOUSE, "floor") == []


def test_all_needed_in_a_circle():
    assert all_needed({"a": ["b"], "b": ["c"], "c": ["b"]}, "a") == ["b", "c"]
