"""What is kept of a kind has a limit of bytes; what exceeds it is counted, in its own namespace."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.cluster.store import ENTRY, Store, size_of
from podfit.kube.snapshot import WATCHED_KINDS, key
from tests.cluster.script import CLAIM_TEMPLATES, NODES, node

JSONDict = dict[str, Any]
WHOLE = CLAIM_TEMPLATES._replace(keep=lambda obj: obj, max_object=400, max_bytes=6000)
"""A kind of which everything is kept, with little room."""


def template(name: str, namespace: str = "chat", size: int = 1) -> JSONDict:
    """An object of more than `size` bytes."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"text": "x" * size}}


def names(store: Store) -> set[str]:
    """Of the objects that are known."""
    return {"/".join(name) for name in store.objects}


def test_a_large_object_is_unknown_and_the_others_are_not() -> None:
    store = Store(WHOLE)
    for obj in (template("small"), template("large", size=400), template("other", "b")):
        assert store.add(obj)

    assert names(store) == {"chat/small", "b/other"}
    assert dict(store.unknown) == {"chat": 1}


def test_an_object_grows_and_shrinks() -> None:
    store = Store(WHOLE)
    seen = []
    for size in (1, 400, 500, 1):
        changed = store.add(template("a", size=size), is_new=False)
        seen.append((changed, names(store), dict(store.unknown)))

    known: Any = ({"chat/a"}, {})
    unknown: Any = (set(), {"chat": 1})
    assert seen == [(True, *known), (True, *unknown), (False, *unknown), (True, *known)]
    assert store.digest == filled(template("a")).digest


def test_a_deleted_object_is_neither_known_nor_unknown() -> None:
    store = filled(template("a"), template("b", size=400))
    assert all(store.remove(template(name)["metadata"]) for name in "ab")

    assert (store.objects, dict(store.unknown), store.digest) == ({}, {}, 0)
    assert not store.remove(template("a")["metadata"])


def filled(*objects: JSONDict) -> Store:
    """A store with these objects."""
    store = Store(WHOLE)
    for obj in objects:
        store.add(obj)
    return store


def test_the_namespace_that_takes_most_is_unknown_and_no_other() -> None:
    store = filled(*(template(f"a{n}", "many") for n in range(20)), *(template(f"b{n}", "few") for n in range(3)))

    assert names(store) == {"few/b0", "few/b1", "few/b2"}
    assert dict(store.unknown) == {"many": 20}
    for name in ("a0", "a1"):
        store.remove(template(name, "many")["metadata"])
    store.add(template("a2", "many", 2), is_new=False)
    store.add(template("a20", "many"))
    assert dict(store.unknown) == {"many": 19}


def test_names_of_unknown_objects_have_no_more_room() -> None:
    store = filled(*(template(f"a{n}", size=400) for n in range(100)))

    assert dict(store.unknown) == {"chat": 100}
    assert len(store.unknown_objects) * ENTRY <= WHOLE.max_bytes


def test_a_kind_without_namespaces_is_known_only_as_a_whole() -> None:
    store = Store(NODES._replace(max_bytes=3000))
    kept = []
    for number in range(9):
        store.add(node(f"node-{number}"))
        kept.append((len(store.objects), store.is_dropped))

    assert kept[0] == (1, False)
    assert kept[-1] == (0, True)
    assert dict(store.unknown) == {"": 9}


@pytest.mark.parametrize("kind", WATCHED_KINDS, ids=lambda kind: kind.name)
def test_an_object_whose_reading_raises_is_unknown(kind: Any) -> None:
    def keep(_: object) -> JSONDict:
        raise AttributeError

    store = Store(kind._replace(keep=keep))
    store.add(template("a"))

    assert dict(store.unknown) == {"chat": 1}


def test_an_equal_object_of_the_last_list_is_used_again() -> None:
    before, store = filled(template("a"), template("b")), Store(WHOLE)
    for obj in (template("a"), template("b", size=2)):
        store.add(obj, previous=before.objects)

    assert [store.objects["chat", name] is before.objects["chat", name] for name in "ab"] == [True, False]


EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "z"]), st.sampled_from([0, 1, 200, 390, 500])),
    max_size=60,
)


@given(EVENTS)
def test_after_any_events_there_is_what_the_last_ones_left_within_the_limit(events: list[tuple[str, str, int]]) -> None:
    store, there = Store(WHOLE), dict[tuple[str, str], JSONDict]()
    for namespace, name, size in events:
        obj = template(name, namespace, size)
        if size:
            store.add(obj, is_new=key(obj) not in there)
            there[key(obj)] = obj
        elif there.pop(key(obj), None):
            store.remove(obj["metadata"])

    unknown = store.unknown
    assert sum(size_of(kept) + ENTRY for kept in store.objects.values()) <= WHOLE.max_bytes
    assert store.objects.items() <= there.items()
    assert len(store.objects) + sum(unknown.values()) == len(there)
    for (namespace, name), obj in there.items():
        assert (namespace, name) in store.objects or unknown[namespace], obj
