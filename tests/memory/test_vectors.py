"""The vector index: exact with numpy, the same with turbovec beyond its limit; the filter is always first."""

from __future__ import annotations

import numpy
import pytest

from placet.memory.fact import FactScope
from placet.memory.in_memory import MemoryFacts
from placet.memory.store import FactFilter
from placet.memory.vectors import VectorIndex, VectorsUnusable
from placet.testing.fact_store import make_fact

COUNT, WIDTH = 3_000, 64


@pytest.fixture(scope="module")
def store() -> MemoryFacts:
    made = MemoryFacts()
    facts = [
        make_fact(
            str(n),
            valid_until=500.0 if n % 3 == 0 else None,
            scope=FactScope(person="ann") if n % 5 == 0 else FactScope(),
        )
        for n in range(COUNT)
    ]
    made.add(facts)
    numbers = numpy.random.default_rng(7).standard_normal((COUNT, WIDTH), dtype=numpy.float32)
    numbers /= numpy.linalg.norm(numbers, axis=1, keepdims=True)
    made.put_vectors(None, "m", {str(n): row.tobytes() for n, row in enumerate(numbers)})
    return made


def queries(count: int = 20) -> numpy.ndarray:
    made = numpy.random.default_rng(8).standard_normal((count, WIDTH), dtype=numpy.float32)
    return numpy.asarray(made / numpy.linalg.norm(made, axis=1, keepdims=True))


WHERE = FactFilter(at=900.0)


def test_what_the_filter_excludes_is_never_returned(store: MemoryFacts) -> None:
    index = VectorIndex(store, None, "m")

    found = {id for query in queries() for id, _ in index.search(query, WHERE, 50)}
    everything = {
        id for query in queries() for id, _ in index.search(query, FactFilter(at=200.0, scope=None), 50)
    }

    assert not [id for id in found if int(id) % 3 == 0 or int(id) % 5 == 0]
    assert [id for id in everything if int(id) % 3 == 0]
    assert [id for id in everything if int(id) % 5 == 0]


def test_beyond_the_limit_the_same_are_found(store: MemoryFacts) -> None:
    exact, beyond = VectorIndex(store, None, "m"), VectorIndex(store, None, "m", exact_up_to=100)

    same = 0
    for query in queries():
        wanted = exact.search(query, WHERE, 10)
        found = beyond.search(query, WHERE, 10)
        assert all(int(id) % 3 and int(id) % 5 for id, _ in found)
        same += len({id for id, _ in wanted} & {id for id, _ in found})
        assert found[0][1] == pytest.approx(wanted[0][1], abs=0.02)

    assert beyond._approximate is not None
    assert same >= 0.98 * 200


def test_what_comes_later_is_found_and_the_index_is_not_made_again() -> None:
    made = MemoryFacts()
    made.add([make_fact(str(n)) for n in range(COUNT + 2)])
    numbers = numpy.random.default_rng(7).standard_normal((COUNT + 2, WIDTH), dtype=numpy.float32)
    numbers /= numpy.linalg.norm(numbers, axis=1, keepdims=True)
    by_id = {str(n): row.tobytes() for n, row in enumerate(numbers)}
    made.put_vectors(None, "m", {id: by_id[id] for id in list(by_id)[:COUNT]})
    index = VectorIndex(made, None, "m", exact_up_to=100)
    assert index.search(numbers[COUNT], WHERE, 1)[0][0] != str(COUNT)
    first = index._approximate

    for n in (COUNT, COUNT + 1):
        made.put_vectors(None, "m", {str(n): by_id[str(n)]})
        assert index.search(numbers[n], WHERE, 1)[0][0] == str(n)
    assert index._approximate is first
    made.put_vectors(None, "m", {"5": by_id[str(COUNT)]})
    found = index.search(numbers[COUNT], WHERE, 2)

    assert {id for id, _ in found} == {"5", str(COUNT)}
    assert index._approximate is not first


def test_vectors_of_another_size_are_refused(store: MemoryFacts) -> None:
    with pytest.raises(VectorsUnusable):
        VectorIndex(store, None, "m").search(numpy.ones(3, dtype=numpy.float32), WHERE, 5)


def test_vectors_of_another_model_are_not_compared(store: MemoryFacts) -> None:
    assert VectorIndex(store, None, "other").search(queries(1)[0], WHERE, 5) == []
