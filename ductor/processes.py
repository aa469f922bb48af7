"""Several processes of one program, under a parent that does nothing but watch over them.

```
  parent ──fork──▶ child 1..N ──ends, killed or not──▶ started again after RESTART_PAUSE_S
    │                        └──ends by itself soon after its start, MAX_FAILED_STARTS times in a row──▶ all end
    └── SIGTERM or SIGINT: passed on once to every child, and waited for
```
Children are forked before anything is open, so that they share nothing. A child whose parent is gone stops as if it had
been told to: nobody would watch over it, and the parent's successor has children of its own.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

RESTART_PAUSE_S: Final = 0.5
QUICK_END_S: Final = 5.0
"""A process that ends with an error earlier than this never came to work."""
MAX_FAILED_STARTS: Final = 3
MAX_PROCESSES: Final = 256


class ProcessGroup:
    """Runs `work` in `count` processes until told to stop. Only on systems with `fork`."""

    def __init__(self, count: int, work: Callable[[], None]) -> None:
        """Args: `work` is called in each process, whose exit status is 0 if it returns, and 1 if it raises."""
        if not 1 <= count <= MAX_PROCESSES:
            raise ValueError(f"{count} processes; 1 to {MAX_PROCESSES} are possible")
        self._count, self._work = count, work
        self._started_at_s: dict[int, float] = {}
        self._is_stopping = False
        self._failed_starts = 0
        self._lifeline = os.pipe()

    def run(self) -> int:
        """Watch over the processes. 0 when they were told to stop and all ended well, else 1."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for _ in range(self._count):
            self._start()
        is_clean = True
        while self._started_at_s:
            process_id, status = os.waitpid(-1, 0)
            began_s = self._started_at_s.pop(process_id, None)
            if began_s is None:
                continue
            exit_status = os.waitstatus_to_exitcode(status)
            if self._is_stopping:
                is_clean = is_clean and exit_status in {0, -signal.SIGTERM}  # the latter had not begun to listen
                continue
            is_quick = exit_status > 0 and time.monotonic() - began_s < QUICK_END_S
            self._failed_starts = self._failed_starts + 1 if is_quick else 0
            if self._failed_starts >= MAX_FAILED_STARTS:
                is_clean = False
                self._stop(signal.SIGTERM)
                continue
            time.sleep(RESTART_PAUSE_S)
            self._start()
        return 0 if is_clean and not self._failed_starts else 1

    def _start(self) -> None:
        # told to stop between the check and the fork, the parent could not tell the new child: signals wait meanwhile
        masked = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, masked)
        if not self._is_stopping:
            process_id = os.fork()
            if process_id == 0:
                self._be_child(masked)
            self._started_at_s[process_id] = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, masked)

    def _be_child(self, masked: set[signal.Signals]) -> None:
        """Never returns: what the parent has on its stack is not this process's."""
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, masked)
            os.close(self._lifeline[1])
            threading.Thread(target=_stop_without_parent, args=(self._lifeline[0],), daemon=True).start()
            self._work()
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException as error:  # noqa: BLE001 - the process ends here, and says why
            os.write(2, f"a process of the group has failed: {type(error).__name__}: {error}\n".encode())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _stop(self, _number: int, _frame: object = None) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            for process_id in self._started_at_s:
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(process_id, signal.SIGTERM)


def _stop_without_parent(lifeline: int) -> None:
    os.read(lifeline, 1)  # nobody writes to it: it ends with the parent
    os.kill(os.getpid(), signal.SIGTERM)
