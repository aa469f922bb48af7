"""Which hosts live, as one of them concludes from the rows of all: a pure function of what it reads at each heartbeat.

```
  unknown ──first seen──▶ alive ──heartbeat older than `alive_us`──▶ gone ──BURIED_AFTER_US──▶ its row is removed
                            ▲ │                                        │
                            └─┼──────────── beats again ───────────────┘
                              └── its row is removed: it has left in order ──▶ gone
```
All times are the database's: a host whose own clock is wrong is neither early nor late.

Failure cases:
- The database was away, or this host stood still: all heartbeats are old, and say nothing. Who finds its own last one
  too old gives all others `alive_us` to beat again. So does a host that starts.
- A host that stood still comes back: it is alive again, and gets its partitions back as if it had just come.
- Hosts that see others come and go at different times disagree for a heartbeat. Both may carry on one run then; the
  version check lets one of them win.
- A host dies that held an attempt of a run of mine, and had not told of it yet: at no heartbeat is it missed. So every
  death has me look over all that is mine, once all that live have told what they hold: `look_over_before_us`.
- Partitions change hands between hosts that live: who had them may hold attempts of their runs, and has not told yet.
  Until it has, nobody issues anything of them again: `unsettled`.
- A host carries on runs that it does not own, and tells of each attempt with its next heartbeat. What is younger than
  what all have told of is issued again by nobody: `told_until_us`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from ductor.actors.partitions import PartitionMap
from ductor.journal.partitions import PARTITIONS
from ductor.journal.records import HostRecord

BURIED_AFTER_US: Final = 60_000_000
"""The row of a dead host stays for so long, so that whoever starts meanwhile takes over from it as well."""

ANY_TIME_US: Final = 2**63 - 1

BEATS_THAT_TELL: Final = 2
"""With the first heartbeat after hosts have come and gone a host learns what it owns, with the next one it tells of
what it holds for others."""


class Telling(msgspec.Struct):
    """A host that has not told yet what it holds, since hosts have come or gone.

    Attributes:
        partitions: those that it has handed on then.
    """

    host_id: str
    heard_at_us: int
    partitions: frozenset[int] = frozenset()
    beats_to_come: int = BEATS_THAT_TELL

    def goes_on(self, heartbeats_us: Mapping[str, int]) -> bool:
        """Whether it still has not, by these heartbeats of all that live. Who is dead tells nothing any more."""
        heard_at_us = heartbeats_us.get(self.host_id)
        if heard_at_us is None:
            return False
        if heard_at_us > self.heard_at_us:
            self.heard_at_us, self.beats_to_come = heard_at_us, self.beats_to_come - 1
        return self.beats_to_come > 0


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What one heartbeat has shown.

    Attributes:
        partitions: who owns what from now on.
        others: hosts that live beside this one, draining ones among them.
        gained: partitions of this host that were not its own at the last heartbeat.
        gone: hosts that lived at the last heartbeat, and those found dead at the first.
        dead: those of them that have not left in order.
        taken_over: partitions of this host in which the dead may have left attempts.
        unsettled: partitions of which hosts that live may hold attempts that they have not told of yet.
        told_until_us: of attempts that were dispatched before, all hosts that live have told whether they hold them, as
            far as partitions have not changed hands since.
        elsewhere: tokens of attempts that other hosts hold although they do not own their runs.
        withdrawn: tokens of attempts that runs in the hands of other hosts want no more.
        released: tokens that were `elsewhere` at the last heartbeat: they have a result, or nobody holds them.
        look_over_before_us: a host had died by then, and all others have told since what they hold: an attempt of this
            host's runs that was dispatched before, and that is neither here nor `elsewhere`, is held by nobody. None
            when there is nothing to look over.
        to_bury: hosts whose rows are of no use any more.
        was_away: others may have thought this host dead meanwhile.
    """

    partitions: PartitionMap
    others: frozenset[str]
    gained: frozenset[int]
    gone: frozenset[str]
    dead: frozenset[str]
    taken_over: frozenset[int]
    unsettled: frozenset[int]
    told_until_us: int
    elsewhere: frozenset[str]
    withdrawn: frozenset[str]
    released: frozenset[str]
    look_over_before_us: int | None
    to_bury: tuple[str, ...]
    was_away: bool


class Membership:
    """See the module's docstring."""

    def __init__(self, own_id: str, alive_us: int) -> None:
        """Args: `alive_us` is how old the heartbeat of a host that lives may be."""
        self.own_id, self._alive_us = own_id, alive_us
        self.partitions = PartitionMap(own_id, [own_id])
        self.others: frozenset[str] = frozenset()
        self.elsewhere: frozenset[str] = frozenset()
        self._beat_at_us: int | None = None
        self._patient_until_us = 0
        self._death_seen_at_us: int | None = None
        self._telling_of_all: list[Telling] = []
        self._telling_of_handed_on: list[Telling] = []
        self._told_until_us: dict[str, int] = {}
        self._heartbeats_us: dict[str, int] = {}

    def observe(self, rows: Sequence[HostRecord], known_dead: Collection[str] = ()) -> Observation:
        """Draw conclusions from the rows of all hosts, this one's just written by its heartbeat.

        Args:
            known_dead: hosts that can't live, however young their heartbeat is.
        """
        own = next(row for row in rows if row.host_id == self.own_id)
        now_us, last_us = own.heartbeat_at_us, self._beat_at_us
        is_first, self._beat_at_us = last_us is None, now_us
        was_away = last_us is not None and now_us - last_us > self._alive_us
        if is_first or was_away:
            self._patient_until_us = now_us + self._alive_us
        alive = [
            row
            for row in rows
            if row is not own and row.host_id not in known_dead and self._lives(row, now_us, is_first)
        ]
        others = frozenset(row.host_id for row in alive)
        found_dead = {row.host_id for row in rows} - others - {self.own_id} if is_first else frozenset()
        gone = (self.others - others) | found_dead
        owners = [row.host_id for row in (*alive, own) if not row.is_draining]
        partitions = PartitionMap(self.own_id, owners or [self.own_id])  # where all drain, each keeps what it has
        elsewhere = frozenset(token for row in alive for token in row.guests)
        before = PartitionMap(self.own_id, []) if is_first or was_away else self.partitions
        # who has left in order holds nothing; who was away may have missed that somebody dead was buried
        dead = gone if was_away else gone & {row.host_id for row in rows}
        taken_over = partitions.inherited_from(dead, self._known_to(dead, rows, now_us) & partitions.hosts)
        heartbeats_us = {row.host_id: row.heartbeat_at_us for row in alive}
        if was_away or dead:
            self._death_seen_at_us = None if taken_over == partitions.of(self.own_id) else now_us
            self._telling_of_all = [Telling(host_id, at_us) for host_id, at_us in heartbeats_us.items()]
        observation = Observation(
            partitions=partitions,
            others=others,
            gained=partitions.gained_since(before),
            gone=gone,
            dead=dead,
            taken_over=taken_over,
            unsettled=self._unsettled(heartbeats_us, partitions, None if is_first or was_away else before),
            told_until_us=self._all_told_until_us(alive),
            elsewhere=elsewhere,
            withdrawn=frozenset(token for row in alive for token in row.withdrawn),
            released=self.elsewhere - elsewhere,
            look_over_before_us=self._look_over_before_us(heartbeats_us),
            to_bury=tuple(
                row.host_id
                for row in rows
                if now_us - row.heartbeat_at_us > BURIED_AFTER_US and row.host_id not in others
            ),
            was_away=was_away,
        )
        self.partitions, self.others, self.elsewhere = partitions, others, elsewhere
        return observation

    def _look_over_before_us(self, heartbeats_us: Mapping[str, int]) -> int | None:
        """See `Observation.look_over_before_us`. Told once."""
        self._telling_of_all = [telling for telling in self._telling_of_all if telling.goes_on(heartbeats_us)]
        if self._telling_of_all:
            return None
        before_us, self._death_seen_at_us = self._death_seen_at_us, None
        return before_us

    def _unsettled(
        self, heartbeats_us: Mapping[str, int], partitions: PartitionMap, before: PartitionMap | None
    ) -> frozenset[int]:
        """See `Observation.unsettled`.

        Args:
            before: who owned what at the last heartbeat; None when that is not known.
        """
        still = [telling for telling in self._telling_of_handed_on if telling.goes_on(heartbeats_us)]
        for host_id, at_us in heartbeats_us.items():
            had = frozenset(range(PARTITIONS)) if before is None else before.of(host_id)
            if handed_on := had - partitions.of(host_id):
                still.append(Telling(host_id, at_us, handed_on))
        self._telling_of_handed_on = still
        return frozenset[int]().union(*(telling.partitions for telling in still))

    def _all_told_until_us(self, alive: Sequence[HostRecord]) -> int:
        """See `Observation.told_until_us`.

        What a heartbeat tells is put together before the database gives it its time, but after the one before it. Who
        has beaten but once holds nothing that is older than itself.
        """
        told_until_us = {row.host_id: min(row.started_at_us, row.heartbeat_at_us) for row in alive}
        for row in alive:
            if row.host_id in self._heartbeats_us:
                has_beaten = row.heartbeat_at_us > self._heartbeats_us[row.host_id]
                earlier_us = self._heartbeats_us if has_beaten else self._told_until_us
                told_until_us[row.host_id] = earlier_us[row.host_id]
        self._told_until_us = told_until_us
        self._heartbeats_us = {row.host_id: row.heartbeat_at_us for row in alive}
        return min(told_until_us.values(), default=ANY_TIME_US)

    def _known_to(self, gone: frozenset[str], rows: Sequence[HostRecord], now_us: int) -> frozenset[str]:
        """Hosts that all of those that have gone knew when they were heard last, and told of what they held for them.

        Who has come since may own what was theirs without having had it from them.
        """
        dead = [row for row in rows if row.host_id in gone]
        heard_us = min((row.heartbeat_at_us for row in dead), default=now_us)
        first_us = min((row.started_at_us for row in dead), default=now_us)
        known_before_us = max(heard_us - self._alive_us, first_us)
        return frozenset(row.host_id for row in rows if row.started_at_us < known_before_us)

    def _lives(self, row: HostRecord, now_us: int, is_first: bool) -> bool:
        age_us = now_us - row.heartbeat_at_us
        if age_us <= self._alive_us:
            return True
        if now_us >= self._patient_until_us:
            return False
        return row.host_id in self.others or (is_first and age_us <= BURIED_AFTER_US)
