"""What a replica does about the certificates: a table of what it sees, and any order of what several may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from podfit.server import certs
from podfit.server.certs import Pair, renewal
from podfit.server.certs.renewal import (
    BROKEN,
    MAX_CAS,
    CertificateView,
    Clocks,
    NextStep,
    RenewalPolicy,
    StoredCertificates,
    next_step,
    trusted,
)

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TERMS = RenewalPolicy(("podfit.podfit-system.svc",))
CONFIGURATIONS = ("validating 0", "validating 1", "mutating 0")
MINUTE = 60.0


def stored(now: datetime = NOW) -> StoredCertificates:
    """A Secret as the first replica writes it."""
    made = next_step(CertificateView(), StoredCertificates(), {}, TERMS, Clocks(now, now, 0)).secret
    assert made is not None
    return made


GOOD = stored()
(CA,) = GOOD.cas
OLD = stored(NOW - 250 * DAY)
"""Its CA and its leaf are past two thirds."""
ANOTHER = certs.issue_ca(NOW, "somebody else's").certificate
ENDING = certs.issue_ca(NOW - 335 * DAY, "somebody else's", 365 * DAY).certificate
"""For 30 days more."""


def live(*bundle: bytes) -> dict[str, tuple[bytes, ...]]:
    """Every configuration with this bundle."""
    return dict.fromkeys(CONFIGURATIONS, bundle)


def serving(held: StoredCertificates, since: float = 0.0) -> CertificateView:
    """A replica that has served this for long."""
    return CertificateView(held.leaf, held.cas[0], dict.fromkeys(held.cas, since))


def look(
    replica: CertificateView,
    held: StoredCertificates,
    bundles: renewal.Bundles | None,
    now: datetime = NOW,
    clock: float = 0,
    own: datetime | None = None,
) -> NextStep:
    """A step of who remembers nothing of clocks but, like all of these tests, what it serves."""
    done = next_step(replica, held, bundles, TERMS, Clocks(now, own or now, clock))
    return replace(done, replica=replace(done.replica, steady_offset=replica.steady_offset))


def test_the_first_replica_issues_both_then_announces_then_serves() -> None:
    first = look(CertificateView(), StoredCertificates(), live())
    assert first.secret is not None
    assert first.replica.leaf is None
    assert not first.bundles

    second = look(first.replica, first.secret, live())
    assert second.bundles == live(*first.secret.cas)
    assert second.replica.leaf == first.secret.leaf
    assert not trusted(second.replica, live())

    third = look(second.replica, first.secret, second.bundles)
    assert third == NextStep(third.replica)
    assert trusted(third.replica, second.bundles)


def test_what_is_good_is_left_alone() -> None:
    assert look(serving(GOOD), GOOD, live(CA), NOW + DAY, MINUTE) == NextStep(serving(GOOD))


def test_nothing_of_a_key_is_printed() -> None:
    assert b"PRIVATE" not in repr((GOOD, look(CertificateView(), StoredCertificates(), live()))).encode()
    for pair in (GOOD.ca, GOOD.leaf):
        assert pair is not None
        assert pair.certificate.decode().splitlines()[1] in repr(GOOD)
        assert pair.key.decode().splitlines()[1] not in repr(GOOD)


def test_the_secret_is_read_as_it_was_written() -> None:
    assert renewal.read_secret(renewal.secret_data(GOOD)) == GOOD
    assert renewal.read_secret(renewal.secret_data(OLD)) == OLD


UNREADABLE: list[tuple[str, Callable[[dict[str, str]], object], StoredCertificates]] = [
    ("no key of the CA", lambda data: data.pop("ca.key"), replace(GOOD, ca=None)),
    ("a key of another", lambda data: data.update({"ca.key": data["tls.key"]}), replace(GOOD, ca=None)),
    ("no leaf", lambda data: data.pop("tls.crt"), replace(GOOD, leaf=None)),
    ("not base64", lambda data: data.update({"tls.key": "?"}), replace(GOOD, leaf=None)),
    ("not PEM", lambda data: data.update({"ca.crt": "Zm9v"}), StoredCertificates(leaf=GOOD.leaf)),
    ("nothing", lambda data: data.clear(), StoredCertificates()),
]


@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE])
def test_what_can_t_be_read_of_the_secret_is_not_there(
    change: Callable[[dict[str, str]], object], expected: StoredCertificates
) -> None:
    data = renewal.secret_data(GOOD)
    change(data)

    assert renewal.read_secret(data) == expected


def test_a_ca_past_two_thirds_gets_a_successor_and_the_leaf_stays_until_all_trust_that() -> None:
    at = certs.renew_at(OLD.cas[0]) + timedelta(seconds=1)
    fresh = replace(OLD, leaf=certs.issue_leaf(_ca(OLD), TERMS.hosts, at))

    announced = look(serving(fresh), fresh, live(*fresh.cas), at, 100).secret
    assert announced is not None
    assert announced.cas[1:] == fresh.cas
    assert announced.leaf == fresh.leaf
    told = look(serving(fresh), announced, live(*fresh.cas), at, 100).bundles
    assert told == live(fresh.cas[0], announced.cas[0])

    seen = look(serving(fresh), announced, told, at, 100).replica
    assert look(seen, announced, told, at, 100 + MINUTE - 1) == NextStep(seen)
    switched = look(seen, announced, told, at, 100 + MINUTE).secret
    assert switched is not None
    assert switched.leaf is not None
    assert certs.signed_by(switched.leaf.certificate, announced.cas[0])
    assert look(seen, switched, told, at, 100 + MINUTE).replica.leaf == switched.leaf


def test_a_configuration_that_loses_the_new_ca_begins_the_minute_anew() -> None:
    both = StoredCertificates((ANOTHER, *GOOD.cas), GOOD.ca, GOOD.leaf)
    seen = look(serving(GOOD), both, live(*both.cas), NOW, 100).replica
    lost = look(seen, both, {**live(*both.cas), "mutating 0": (CA,)}, NOW, 150)

    assert lost.bundles == {"mutating 0": (CA, ANOTHER)}
    assert look(lost.replica, both, live(*both.cas), NOW, 155).replica.since[ANOTHER] == 155


def test_a_leaf_past_two_thirds_is_renewed_by_the_same_ca() -> None:
    at = NOW + 61 * DAY

    renewed = look(serving(GOOD), GOOD, live(CA), at, MINUTE).secret

    assert renewed is not None
    assert (renewed.cas, renewed.ca) == (GOOD.cas, GOOD.ca)
    assert renewed.leaf is not None
    assert certs.not_after(renewed.leaf.certificate) == at + TERMS.leaf_lifetime


def test_the_charts_lifetimes_are_renewed_at_two_thirds_and_not_before() -> None:
    values = yaml.safe_load((ROOT / "charts/podfit/values.yaml").read_text())["certificates"]
    assert (values["lifetime"], values["caLifetime"]) == (f"{TERMS.leaf_lifetime.days}d", f"{TERMS.ca_lifetime.days}d")
    assert GOOD.ca is not None
    leaf_is_due, ca_is_due = NOW + 60 * DAY, NOW + 243 * DAY + timedelta(hours=8)
    later = certs.issue_leaf(GOOD.ca, TERMS.hosts, ca_is_due - DAY, TERMS.leaf_lifetime)

    for held, due in ((GOOD, leaf_is_due), (replace(GOOD, leaf=later), ca_is_due)):
        assert look(serving(held), held, live(CA), due - timedelta(seconds=1), MINUTE).secret is None
        assert look(serving(held), held, live(CA), due, MINUTE).secret is not None


def test_other_hosts_get_another_leaf() -> None:
    other = replace(TERMS, hosts=("other.svc",))

    renewed = next_step(serving(GOOD), GOOD, live(CA), other, Clocks(NOW, NOW, MINUTE)).secret

    assert renewed is not None
    assert renewed.leaf is not None
    assert certs.hosts_of(renewed.leaf.certificate) == {"other.svc"}


def test_a_lost_secret_gets_another_ca_and_a_leaf_of_it_at_once() -> None:
    """The admin deleted it, since a key leaked: nothing of the old one comes back."""
    again = look(serving(GOOD), StoredCertificates(), live(CA), NOW, MINUTE).secret

    assert again is not None
    assert again.cas == (_ca(again).certificate,)
    assert CA not in again.cas
    assert again.leaf is not None
    assert certs.signed_by(again.leaf.certificate, again.cas[0])
    assert look(serving(GOOD), again, live(CA)).replica.leaf == GOOD.leaf, "which stays trusted meanwhile"
    assert look(CertificateView(), again, live(CA)).replica.leaf == again.leaf


def test_the_ca_of_a_lost_secret_leaves_the_bundles_when_all_replicas_have_moved_on() -> None:
    at = NOW + DAY
    again = stored(at)
    moved = CertificateView(again.leaf, again.cas[0])
    soon, later = at + timedelta(minutes=10), at + timedelta(minutes=10, seconds=1)

    assert look(moved, again, live(CA, *again.cas, ANOTHER), soon).bundles == {}
    assert look(moved, again, live(CA, *again.cas, ANOTHER), later).bundles == live(*again.cas, ANOTHER)
    assert look(serving(GOOD), again, live(CA, *again.cas), later).bundles == {}, "not while it serves a leaf of it"
    renewed = StoredCertificates((*again.cas, CA), again.ca, again.leaf)
    assert look(moved, renewed, live(CA, *again.cas), later).bundles == {}, "a renewal loses nothing"


def test_a_restored_secret_takes_no_newer_ca_from_the_bundles() -> None:
    newer = stored(NOW + DAY)

    assert look(serving(GOOD), GOOD, live(CA, *newer.cas), NOW + 2 * DAY).bundles == {}


def test_a_leaf_of_a_ca_that_is_not_announced_is_not_taken_over_by_who_serves_another() -> None:
    """A replica that had nothing was faster after the Secret was lost."""
    other = stored()
    told = look(serving(GOOD), other, live(CA), NOW, 100).bundles
    assert told == live(CA, other.cas[0])

    seen = look(serving(GOOD), other, told, NOW, 100).replica
    assert seen.leaf == GOOD.leaf
    assert look(seen, other, told, NOW, 100 + MINUTE).replica.leaf == other.leaf


def test_an_edited_bundle_is_added_to_never_replaced() -> None:
    assert look(serving(GOOD), GOOD, {**live(CA), "mutating 0": (ANOTHER,)}).bundles == {"mutating 0": (ANOTHER, CA)}
    assert look(serving(GOOD), GOOD, {**live(CA), "mutating 0": (BROKEN,)}).bundles == {"mutating 0": (CA,)}
    assert look(serving(GOOD), GOOD, live(CA, ANOTHER)) == NextStep(serving(GOOD))


def test_what_has_ended_leaves_the_secret_and_the_bundles() -> None:
    ended = certs.issue_ca(NOW - 400 * DAY, lifetime=365 * DAY).certificate

    assert look(serving(GOOD), StoredCertificates((*GOOD.cas, ended), GOOD.ca, GOOD.leaf), live(CA)).secret == GOOD
    assert look(serving(GOOD), GOOD, live(ended, CA)).bundles == live(CA)


def test_who_has_nothing_serves_what_is_stored_while_a_successor_can_t_be() -> None:
    at = certs.renew_at(OLD.cas[0]) + timedelta(seconds=1)
    fresh = replace(OLD, leaf=certs.issue_leaf(_ca(OLD), TERMS.hosts, at))

    told = look(CertificateView(), fresh, live(), at)

    assert told.secret is not None
    assert told.secret.leaf == fresh.leaf
    assert told.replica.leaf == fresh.leaf
    assert told.bundles == live(*fresh.cas), "what is stored is announced whether or not its successor can be stored"


def test_who_serves_what_has_ended_takes_what_is_stored_while_a_successor_can_t_be() -> None:
    at = certs.renew_at(OLD.cas[0]) + timedelta(seconds=1)
    fresh = replace(OLD, leaf=certs.issue_leaf(_ca(OLD), TERMS.hosts, at))
    ended = CertificateView(certs.issue_leaf(_ca(OLD), TERMS.hosts, at - 91 * DAY, 90 * DAY), OLD.cas[0])

    assert look(ended, fresh, live(*fresh.cas), at).replica.leaf == fresh.leaf


@pytest.mark.parametrize("days", [-400, 400])
def test_one_answer_s_date_issues_nothing_switches_nothing_and_removes_nothing(days: int) -> None:
    told = look(serving(GOOD), GOOD, live(ANOTHER, CA), NOW + days * DAY, MINUTE, own=NOW)

    assert (told.secret, told.bundles, told.replica.leaf) == (None, {}, GOOD.leaf)
    assert told.doubt == (
        f"the API server's clock says {NOW + days * DAY:%Y-%m-%d} 12:00 UTC, this machine's 2026-06-01 12:00"
    )


def test_an_api_server_that_keeps_to_its_clock_for_an_hour_is_believed_against_ours() -> None:
    at, replica, held = NOW + 61 * DAY, serving(GOOD), GOOD
    issued = []
    for clock in range(0, 4000, 600):
        now = at + timedelta(seconds=clock)
        done = next_step(replica, held, live(CA), TERMS, Clocks(now, NOW, clock))
        replica, held = done.replica, done.secret or held
        issued += [clock] * (done.secret is not None)

    assert issued == [3600]


@pytest.mark.parametrize("days", [-400, 400])
def test_a_fresh_replica_whose_own_clock_is_wrong_serves_at_once(days: int) -> None:
    assert look(CertificateView(), GOOD, live(CA), NOW, own=NOW + days * DAY).replica.leaf == GOOD.leaf
    assert look(CertificateView(), StoredCertificates(), live(), NOW, own=NOW + days * DAY).secret is not None


@pytest.mark.parametrize("held", [replace(GOOD, cas=(), ca=None), stored(NOW - 200 * DAY)], ids=["no CA", "ended"])
def test_what_nobody_can_serve_by_any_clock_is_replaced_whatever_the_date(held: StoredCertificates) -> None:
    told = look(CertificateView(), held, live(), NOW, own=NOW + 2 * DAY)

    assert told.secret is not None
    assert told.secret.leaf != held.leaf


@pytest.mark.parametrize("days", [(-400, 0), (0, -400)])
def test_what_has_not_ended_by_both_clocks_stays(days: tuple[int, int]) -> None:
    ended = certs.issue_ca(NOW - 400 * DAY, lifetime=365 * DAY).certificate
    now, own = (NOW + number * DAY for number in days)

    assert look(serving(GOOD), GOOD, live(ended, CA), now, own=own).bundles == {}
    assert look(serving(GOOD), GOOD, live(ended, CA), NOW).bundles == live(CA)


def test_a_ca_goes_when_no_leaf_of_it_can_be_left() -> None:
    before = certs.issue_ca(NOW - 60 * DAY, lifetime=365 * DAY).certificate
    held = replace(GOOD, cas=(CA, before))
    at = NOW + 89 * DAY  # the last leaf of the first is older than the second

    assert look(serving(held), held, live(before, CA), at).bundles == {}
    leaf = certs.issue_leaf(_ca(GOOD), TERMS.hosts, at)
    later, at = replace(held, leaf=leaf), NOW + 91 * DAY
    assert look(CertificateView(leaf, CA), later, live(before, CA, ANOTHER), at).bundles == live(CA, ANOTHER)
    assert look(CertificateView(leaf, CA), later, live(before, CA), at).secret == replace(later, cas=(CA,))


def test_a_ca_of_which_somebody_serves_a_leaf_never_goes() -> None:
    before = certs.issue_ca(NOW - 60 * DAY, lifetime=365 * DAY)
    leaf = certs.issue_leaf(before, TERMS.hosts, NOW + 80 * DAY)

    assert (
        look(CertificateView(leaf, before.certificate), GOOD, live(before.certificate, CA), NOW + 91 * DAY).bundles
        == {}
    )


@pytest.mark.parametrize(
    ("left", "size"), [(StoredCertificates(), 2), (None, MAX_CAS)], ids=["the Secret", "the key of the CA"]
)
def test_what_is_lost_all_the_time_leaves_a_bundle_of_bounded_size(left: StoredCertificates | None, size: int) -> None:
    replica, held, bundles, now, clock = serving(GOOD), GOOD, live(CA), NOW, 100.0
    for _ in range(2 * MAX_CAS):
        held = replace(held, ca=None) if left is None else left
        for _ in range(5):
            done = look(replica, held, bundles, now, clock)
            replica, held, bundles = done.replica, done.secret or held, {**bundles, **done.bundles}
            now, clock = now + timedelta(seconds=MINUTE), clock + MINUTE
        now, clock = now + timedelta(hours=1), clock + 3600
    bundles = {**bundles, **look(replica, held, bundles, now, clock).bundles}

    assert max(map(len, bundles.values())) <= size
    assert trusted(replica, bundles)


def test_a_certificate_that_is_not_valid_yet_is_replaced_at_once() -> None:
    early = look(CertificateView(), stored(NOW + DAY), live()).secret

    assert early is not None
    assert early.leaf is not None
    assert early.ca is not None
    assert certs.problem(early.leaf, NOW, early.ca.certificate) is None


def test_who_can_t_read_a_configuration_changes_nothing_that_others_must_trust() -> None:
    at = NOW + 61 * DAY

    assert look(serving(GOOD), GOOD, None, at, MINUTE) == NextStep(replace(serving(GOOD), since={}))


def _ca(held: StoredCertificates) -> Pair:
    assert held.ca is not None
    return held.ca


class World(RuleBasedStateMachine):
    """Four replicas, two of which have long served and two of which know nothing; a Secret; two configurations that
    a user edits. Each replica acts on what it read, however long ago that was; writes of an old version are lost.
    API servers follow a configuration after up to a minute: until then, one or the other still goes by an older state.
    At times no replica may write the Secret, one answer has a date of its own, and a replica's clock is wrong.

    No step of a replica may make a served certificate untrusted. Once every replica has looked, all are trusted,
    even if the Secret can't be written, as long as its content is good.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now, self.clock = NOW, 1000.0
        self.held: StoredCertificates = GOOD
        self.live: dict[str, tuple[bytes, ...]] = live(ENDING, CA)
        self.locked = False
        self.unseen = 0.0
        """Seconds since every replica has looked."""
        self.wrong = [timedelta()] * 4
        """By what each replica's clock is before the API server's."""
        self.past: list[tuple[float, str, tuple[bytes, ...]]] = []
        self.versions = {"secret": 0, **dict.fromkeys(CONFIGURATIONS, 0)}
        self.replicas = [serving(GOOD), serving(GOOD), CertificateView(), CertificateView()]
        self.views: list[tuple[StoredCertificates, dict[str, tuple[bytes, ...]], dict[str, int]] | None] = [None] * 4

    @rule(number=st.integers(0, 3))
    def read(self, number: int) -> None:
        self.views[number] = (self.held, dict(self.live), dict(self.versions))

    @rule(number=st.integers(0, 3), days=st.sampled_from([0, 0, 0, -400, 400]))
    def act(self, number: int, days: int = 0) -> None:
        """`days`: what is wrong with the API server's clock in this one answer."""
        if (view := self.views[number]) is None:
            return
        held, bundles, versions = view
        before = self.trusted()
        clocks = Clocks(self.now + days * DAY, self.now + self.wrong[number], self.clock)
        done = next_step(self.replicas[number], held, bundles, TERMS, clocks)
        if done.secret is not None and not self.locked:
            if versions["secret"] == self.versions["secret"]:
                self.held = renewal.read_secret(renewal.secret_data(done.secret))
                self.versions["secret"] += 1
        else:
            for name, bundle in done.bundles.items():
                if versions[name] == self.versions[name]:
                    self.change(name, bundle)
        was = self.replicas[number].leaf
        self.replicas[number] = done.replica
        self.views[number] = None
        assert before <= self.trusted() | ({number} if was != done.replica.leaf and was is None else set())

    @rule(days=st.integers(1, 100))
    def time_passes(self, days: int) -> None:
        """Every replica looks in between, as each does every few seconds; what was read before then is acted on within
        seconds, or never."""
        self.views = [None] * 4
        while days > 0:
            self.everybody_looks()
            passed = timedelta(days=min(days, 25))
            self.now, self.clock, days = self.now + passed, self.clock + passed.total_seconds(), days - 25
        self.everybody_looks()

    @rule(number=st.integers(0, 3))
    def look(self, number: int) -> None:
        """Undisturbed, to its end."""
        for _ in range(3):
            self.read(number)
            self.act(number)

    @rule(seconds=st.integers(1, 90))
    def seconds_pass(self, seconds: int) -> None:
        """At most a few minutes in which a replica does not look: each does every ten seconds."""
        self.now, self.clock = self.now + timedelta(seconds=seconds), self.clock + seconds
        self.unseen += seconds
        if self.unseen > 3 * MINUTE:
            self.views = [None] * 4
            self.everybody_looks()

    @rule(locked=st.booleans())
    def lock(self, locked: bool) -> None:
        """The right to write the Secret is lost, etcd is full, a user made it immutable."""
        self.locked = locked

    @rule(number=st.integers(0, 3), days=st.sampled_from([-400, 0, 400]))
    def set_the_clock_of(self, number: int, days: int) -> None:
        self.wrong[number] = days * DAY

    @rule(name=st.sampled_from(CONFIGURATIONS), bundle=st.sampled_from([(), (ANOTHER,), (BROKEN,)]))
    def edit(self, name: str, bundle: tuple[bytes, ...]) -> None:
        self.change(name, bundle)

    @rule(name=st.sampled_from(CONFIGURATIONS))
    def add(self, name: str) -> None:
        self.change(name, (ANOTHER, *self.live[name]))

    @rule(
        left=st.sampled_from([set(), {"ca.crt", "ca.key"}, {"ca.crt", "tls.crt", "tls.key"}, {"tls.crt", "tls.key"}]),
        first=st.integers(0, 3),
        fresh=st.booleans(),
    )
    def lose(self, left: set[str], first: int, fresh: bool) -> None:
        """And a replica finds it that may know nothing of before."""
        self.held = renewal.read_secret(
            {name: text for name, text in renewal.secret_data(self.held).items() if name in left}
        )
        self.versions["secret"] += 1
        if fresh:
            self.restart(first)
        self.look(first)

    @rule(number=st.integers(0, 3))
    def restart(self, number: int) -> None:
        self.replicas[number], self.views[number] = CertificateView(), None

    @rule()
    def everybody_looks(self) -> None:
        """Each as often as one look does at most: Secret, bundles, serving."""
        self.unseen = 0
        for _ in range(2):
            for number in range(4):
                self.look(number)
            self.clock, self.now = self.clock + MINUTE, self.now + timedelta(seconds=MINUTE)
        good = self.held.leaf and any(certs.problem(self.held.leaf, self.now, ca) is None for ca in self.held.cas)
        assert self.trusted() == {0, 1, 2, 3} or (self.locked and not good)
        assert renewal.read_secret(renewal.secret_data(self.held)) == self.held
        if not any(self.wrong):
            ended = {ca for bundle in self.live.values() for ca in bundle if certs.not_after(ca) < self.now}
            assert not ended

    def change(self, name: str, bundle: tuple[bytes, ...]) -> None:
        self.past.append((self.clock, name, self.live[name]))
        self.live[name] = bundle
        self.versions[name] += 1

    def followed(self) -> list[tuple[bytes, ...]]:
        """Each state by which some API server goes."""
        return [*self.live.values(), *(bundle for until, _, bundle in self.past if self.clock - until < MINUTE)]

    def trusted(self) -> set[int]:
        """Replicas whose leaf an API server takes, whichever configuration it follows."""
        return {
            number
            for number, replica in enumerate(self.replicas)
            if replica.leaf is not None
            and all(
                any(ca != BROKEN and certs.problem(replica.leaf, self.now, ca) is None for ca in bundle)
                for bundle in self.followed()
            )
        }

    @invariant()
    def nothing_grows(self) -> None:
        """But for losses within minutes of each other: a test of its own says what is left of them."""
        assert all(len(bundle) <= 2 * MAX_CAS for bundle in self.live.values())


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 1, 0), (0, 0, 1, 1)])
def test_replicas_that_race_from_an_empty_cluster_make_one_ca(order: tuple[int, ...]) -> None:
    """Both have read the empty Secret before either writes."""
    world = World()
    world.held, world.live = StoredCertificates(), live()
    world.replicas = [CertificateView()] * 4
    for number in (0, 1):
        world.read(number)
    for number in order:
        world.act(number)
    world.everybody_looks()

    assert len(world.held.cas) == 1
    assert world.live == live(*world.held.cas)
    assert {replica.leaf for replica in world.replicas} == {world.held.leaf}
