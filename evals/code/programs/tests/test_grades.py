from grades import grade, mean_without_worst, ranking


def test_grades():
    assert [grade(points) for points in (100, 90, 89, 80, 75, 60, 59, 0)] == list("AABBCDFF")


def test_impossible_points():
    for points in (-1, 101):
        try:
            grade(points)
        except ValueError:
            continue
        raise AssertionError(points)


def test_mean_without_worst():
    assert mean_without_worst([70, 90, 80]) == 85
    assert mean_without_worst([50, 70, 75]) == 72.5
    assert mean_without_worst([64]) == 64


def test_ranking():
    assert ranking({"Bob": 70, "Ann": 90}) == [(1, "Ann"), (2, "Bob")]


def test_shared_places():
    marks = {"Dan": 50, "Cid": 80, "Bob": 80, "Ann": 90}
    assert ranking(marks) == [(1, "Ann"), (2, "Bob"), (2, "Cid"), (4, "Dan")]


def test_all_equal():
    assert ranking({"b": 1, "a": 1}) == [(1, "a"), (1, "b")]
    assert ranking({}) == []
