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
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from ductor.actors.partitions import PartitionMap
from ductor.journal.records import HostRecord

BURIED_AFTER_US: Final = 60_000_000
"""The row of a dead host stays for so long, so that whoever starts meanwhile takes over from it as well."""

BEATS_THAT_TELL: Final = 2
"""With the first heartbeat after hosts have come and gone a host learns what it owns, with the next one it tells of
what it holds for others."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What one heartbeat has shown.

    Attributes:
        partitions: who owns what from now on.
        others: hosts that live beside this one, draining ones among them.
        gained: partitions of this host that were not its own at the last heartbeat.
        gone: hosts that lived at the last heartbeat, and those found dead at the first.
        taken_over: partitions of this host in which those that have gone may have left attempts.
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
    taken_over: frozenset[int]
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
        self._yet_to_tell: dict[str, int] = {}
        self._heard_at_us: dict[str, int] = {}

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
        nothing = PartitionMap(self.own_id, [])
        taken_over = partitions.inherited_from(gone, self._known_to(gone, rows, now_us) & partitions.hosts)
        if was_away or not gone.isdisjoint(row.host_id for row in rows):  # others have left in order, and hold nothing
            self._note_deaths(alive, None if taken_over == partitions.of(self.own_id) else now_us)
        observation = Observation(
            partitions=partitions,
            others=others,
            gained=partitions.gained_since(nothing if is_first or was_away else self.partitions),
            gone=gone,
            taken_over=taken_over,
            elsewhere=elsewhere,
            withdrawn=frozenset(token for row in alive for token in row.withdrawn),
            released=self.elsewhere - elsewhere,
            look_over_before_us=self._look_over_before_us(alive),
            to_bury=tuple(
                row.host_id
                for row in rows
                if now_us - row.heartbeat_at_us > BURIED_AFTER_US and row.host_id not in others
            ),
            was_away=was_away,
        )
        self.partitions, self.others, self.elsewhere = partitions, others, elsewhere
        return observation

    def _note_deaths(self, alive: Sequence[HostRecord], now_us: int | None) -> None:
        self._death_seen_at_us = now_us
        self._yet_to_tell = {row.host_id: BEATS_THAT_TELL for row in alive}
        self._heard_at_us = {row.host_id: row.heartbeat_at_us for row in alive}

    def _look_over_before_us(self, alive: Sequence[HostRecord]) -> int | None:
        """See `Observation.look_over_before_us`. Told once."""
        if self._death_seen_at_us is None:
            return None
        for row in alive:
            if row.host_id in self._yet_to_tell and row.heartbeat_at_us > self._heard_at_us[row.host_id]:
                self._heard_at_us[row.host_id] = row.heartbeat_at_us
                self._yet_to_tell[row.host_id] -= 1
        if any(self._yet_to_tell.get(row.host_id, 0) > 0 for row in alive):
            return None
        before_us, self._death_seen_at_us = self._death_seen_at_us, None
        return before_us

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
