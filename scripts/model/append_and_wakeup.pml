/* How hosts append to the journal of one run, and how what was sent to it is found.
 *
 * Three hosts, all of which believe that the run is theirs. Each loads the run, computes a commit that takes in what waits, and
 * commits it at the version that it has loaded. A host may be killed before its commit was sent. One that is slow stands for
 * a zombie: a commit that was on its way when its host was killed. Wakeups may be lost; the sweeper looks at what waits in
 * the database.
 *
 * Mechanisms can be taken away, and then a property must fail: -DNO_VERSION_CHECK, -DNO_SWEEPER.
 */
#define HOSTS 3
#define INPUTS 2
#define KILLS 2
#define VERSIONS 6

byte version = 0;            /* rows of the journal */
byte winners[VERSIONS];      /* commits that were told that they had written this version */
bool accepted[INPUTS];       /* rows of the inbox, each durable before its sender hears of it */
byte absorbed[INPUTS];       /* rows of the journal that took it in */
bool woken[HOSTS];           /* wakeups in memory */
byte kills = 0;

proctype Sender(byte input) {
    atomic {
        accepted[input] = true;
        if                   /* the wakeup goes to one of the hosts, or is lost */
        :: woken[0] = true
        :: woken[1] = true
        :: woken[2] = true
        :: skip
        fi
    }
}

proctype Host(byte id) {
    byte loaded;
    bool seen[INPUTS];
    byte i;
end_sleeping:
    do
    :: atomic {
           (woken[id]
#ifndef NO_SWEEPER
            || (accepted[0] && absorbed[0] == 0) || (accepted[1] && absorbed[1] == 0)
#endif
           ) -> woken[id] = false;
           loaded = version;
           seen[0] = accepted[0] && absorbed[0] == 0;
           seen[1] = accepted[1] && absorbed[1] == 0
       }
       if
       :: kills < KILLS -> kills++; woken[id] = false; goto end_sleeping    /* killed before its commit was sent */
       :: !seen[0] && !seen[1]                                          /* nothing to decide: nothing is written */
       :: seen[0] || seen[1] ->
           atomic {                                                     /* one statement of the database */
               if
#ifdef NO_VERSION_CHECK
               :: true ->
#else
               :: loaded == version ->
#endif
                   winners[loaded]++;
                   assert(winners[loaded] <= 1);
                   version++;
                   i = 0;
                   do
                   :: i < INPUTS ->
                       if
                       :: seen[i] -> absorbed[i]++; assert(absorbed[i] <= 1)
                       :: else
                       fi;
                       i++
                   :: else -> break
                   od
#ifndef NO_VERSION_CHECK
               :: else -> skip                                          /* a conflict: the run is loaded anew */
#endif
               fi
           }
       fi
    od
}

init {
    atomic {
        run Host(0); run Host(1); run Host(2);
        run Sender(0); run Sender(1)
    }
}

ltl nothing_is_forgotten {
    [] ((accepted[0] -> <> (absorbed[0] == 1)) && (accepted[1] -> <> (absorbed[1] == 1)))
}
