from formula import evaluate


def fails(text):
    try:
        evaluate(text)
    except ValueError:
        return True
    return False


def test_one_number():
    assert evaluate("42") == 42
    assert evaluate("-7") == -7


def test_signs():
    assert evaluate("7 2 +") == 9
    assert evaluate("7 2 -") == 5
    assert evaluate("7 2 *") == 14
    assert evaluate("7 2 /") == 3.5


def test_nested():
    assert evaluate("3 4 + 2 *") == 14
    assert evaluate("2 3 4 + *") == 14
    assert evaluate("10 2 3 - -") == 11


def test_missing():
    assert fails("1 +")
    assert fails("+")
    assert fails("")


def test_left_over():
    assert fails("1 2")


def test_unknown_sign():
    assert fails("1 2 %")
