"""Watching what a store's writer does."""

import sys

from ductor.actors.observing import Observer
from ductor.journal.store import Store


def watch_batches(store: Store, observer: Observer) -> None:
    """Tell the observer of every batch of commits. Stores without batches have nothing to tell."""
    if "ductor.journal.postgres" not in sys.modules:  # a driver that other stores don't need
        return
    from ductor.journal.postgres import PostgresStore  # noqa: PLC0415

    if isinstance(store, PostgresStore):
        store.watch_batches(observer.batch_written)
