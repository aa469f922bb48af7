-- The current schema in one file, for reading; what `migrations/` add up to, as a test proves. Never applied to a database.
-- Times are whole microseconds since the epoch (UTC).

CREATE SCHEMA ductor;

CREATE TABLE ductor.eec_migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ductor.eec_migration IS 'Migrations applied to this schema.';

CREATE TABLE ductor.eec_journal_era (
    era integer PRIMARY KEY,
    system_identifier bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ductor.eec_journal_era IS
    'Eras of the feed. Transaction ids grow within one cluster only: a restore into another one starts a new era.';
INSERT INTO ductor.eec_journal_era (era, system_identifier) SELECT 0, system_identifier FROM pg_control_system();

CREATE TABLE ductor.eec_workflow_run (
    run_id uuid PRIMARY KEY,
    tenant text NOT NULL,
    definition text NOT NULL,
    manifest_hash text NOT NULL,
    status text NOT NULL,
    started_at_us bigint NOT NULL,
    updated_at_us bigint NOT NULL,
    ended_at_us bigint,
    key text,
    parent_run_id uuid,
    root_run_id uuid,
    error_type text,
    search_attributes json NOT NULL,
    chain_run_id uuid,
    iteration integer NOT NULL DEFAULT 0,
    successor_run_id uuid,
    parent_node text NOT NULL DEFAULT '',
    -- what became of its undos: empty where it undid nothing, true, or partial
    compensated text NOT NULL DEFAULT '',
    CONSTRAINT eec_workflow_run_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_workflow_run_definition CHECK (octet_length(definition) <= 255),
    CONSTRAINT eec_workflow_run_key CHECK (octet_length(key) <= 255)
) WITH (fillfactor = 80);
COMMENT ON TABLE ductor.eec_workflow_run IS 'The head of each run: what people filter by.';
CREATE INDEX eec_workflow_run_of_chain ON ductor.eec_workflow_run (chain_run_id, iteration) WHERE chain_run_id IS NOT NULL;
CREATE INDEX eec_workflow_run_by_definition ON ductor.eec_workflow_run (tenant, definition, run_id);
CREATE INDEX eec_workflow_run_to_recover ON ductor.eec_workflow_run (run_id) WHERE status IN ('pending', 'running');
CREATE INDEX eec_workflow_run_open ON ductor.eec_workflow_run (tenant, definition, run_id)
    WHERE status IN ('pending', 'running', 'waiting', 'paused');
CREATE INDEX eec_workflow_run_of_parent ON ductor.eec_workflow_run (parent_run_id, run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX eec_workflow_run_of_root ON ductor.eec_workflow_run (root_run_id, run_id) WHERE root_run_id IS NOT NULL;

CREATE TABLE ductor.eec_workflow_transition (
    run_id uuid NOT NULL,
    version bigint NOT NULL,
    commit_id uuid NOT NULL,
    at_us bigint NOT NULL,
    events json NOT NULL,
    hash bytea NOT NULL,
    -- the default's constant changes with the era, so that rows need no look-up
    era integer NOT NULL DEFAULT 0,
    transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (run_id, version),
    CONSTRAINT eec_workflow_transition_version CHECK (version > 0)
);
COMMENT ON TABLE ductor.eec_workflow_transition IS 'The journal: one row per tick, insert-only.';
CREATE INDEX eec_workflow_transition_in_commit_order ON ductor.eec_workflow_transition (era, transaction_id, position);
CREATE INDEX eec_workflow_transition_compacted ON ductor.eec_workflow_transition (run_id, version)
    WHERE starts_with(events::text, '[{"type":"run_compacted"');

CREATE TABLE ductor.eec_run_chain (
    -- the first run
    chain_run_id uuid PRIMARY KEY,
    latest_run_id uuid NOT NULL
) WITH (fillfactor = 80);
COMMENT ON TABLE ductor.eec_run_chain IS 'Chains of runs that continue each other: the way from any of them to the latest.';

CREATE TABLE ductor.eec_chain_input (
    chain_run_id uuid NOT NULL,
    -- message or control
    kind text NOT NULL,
    input_id text COLLATE "C" NOT NULL,
    -- the run that has it
    run_id uuid NOT NULL,
    PRIMARY KEY (chain_run_id, kind, input_id)
);
COMMENT ON TABLE ductor.eec_chain_input IS
    'Messages and controls that came to a run of a chain before the latest: their ids are unique in all of it.';

CREATE TABLE ductor.eec_start_key (
    tenant text NOT NULL,
    definition text NOT NULL,
    key text NOT NULL,
    run_id uuid NOT NULL,
    PRIMARY KEY (tenant, definition, key)
);
COMMENT ON TABLE ductor.eec_start_key IS 'Idempotent starts: which run a key started.';

CREATE TABLE ductor.eec_payload (
    run_id uuid NOT NULL,
    hash text NOT NULL,
    body json NOT NULL,
    PRIMARY KEY (run_id, hash)
);
COMMENT ON TABLE ductor.eec_payload IS 'Large values, by content hash; they live and die with their run.';

CREATE TABLE ductor.eec_workflow_snapshot (
    run_id uuid NOT NULL,
    fold_revision integer NOT NULL,
    version bigint NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (run_id, fold_revision)
);
COMMENT ON TABLE ductor.eec_workflow_snapshot IS 'Folded states, one per run and fold revision. A cache.';

CREATE TABLE ductor.eec_workflow_timer (
    run_id uuid PRIMARY KEY,
    due_at_us bigint,
    CONSTRAINT eec_workflow_timer_due_at_us CHECK (due_at_us >= 0)
) WITH (fillfactor = 80);
COMMENT ON TABLE ductor.eec_workflow_timer IS 'The earliest deadline of a run, NULL for none.';
CREATE INDEX eec_workflow_timer_due ON ductor.eec_workflow_timer (due_at_us) WHERE due_at_us IS NOT NULL;

CREATE TABLE ductor.eec_workflow_control (
    run_id uuid NOT NULL,
    request_id text NOT NULL,
    kind text NOT NULL,
    arguments json NOT NULL,
    by text NOT NULL,
    requested_at_us bigint NOT NULL,
    -- orders the requests of a run
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    disposition text NOT NULL DEFAULT '',
    outcome text NOT NULL DEFAULT '',
    applied_version bigint,
    PRIMARY KEY (run_id, request_id)
);
COMMENT ON TABLE ductor.eec_workflow_control IS 'Requests of operators to a run, and what became of them.';
CREATE INDEX eec_workflow_control_waiting ON ductor.eec_workflow_control (position) WHERE disposition = '';

CREATE TABLE ductor.eec_workflow_step_attempt (
    run_id uuid NOT NULL,
    node text NOT NULL,
    generation integer NOT NULL,
    outcome text NOT NULL,
    output json,
    output_ref json,
    error json,
    worker text NOT NULL,
    started_at_us bigint NOT NULL,
    finished_at_us bigint NOT NULL,
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    disposition text NOT NULL DEFAULT '',
    applied_version bigint,
    -- passed over because the run was paused
    is_held boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, node, generation)
);
COMMENT ON TABLE ductor.eec_workflow_step_attempt IS 'Results that could not ride in a tick, and what became of them.';
CREATE INDEX eec_workflow_step_attempt_waiting ON ductor.eec_workflow_step_attempt (position)
    WHERE disposition = '' AND NOT is_held;
CREATE INDEX eec_workflow_step_attempt_held ON ductor.eec_workflow_step_attempt (position)
    WHERE disposition = '' AND is_held;

CREATE TABLE ductor.eec_workflow_signal (
    run_id uuid NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    node text NOT NULL,
    payload json,
    payload_ref json,
    by text NOT NULL,
    at_us bigint NOT NULL,
    -- orders the messages of a run
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    disposition text NOT NULL DEFAULT '',
    applied_version bigint,
    -- passed over because the run was paused
    is_held boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, message_id),
    -- an event's own id has 255 bytes at most; here `event:` stands before it
    CONSTRAINT eec_workflow_signal_message_id CHECK (octet_length(message_id) <= 261)
);
COMMENT ON TABLE ductor.eec_workflow_signal IS
    'Messages to a run: signals, events, votes and replies, and what became of them.';
CREATE INDEX eec_workflow_signal_waiting ON ductor.eec_workflow_signal (position) WHERE disposition = '' AND NOT is_held;
CREATE INDEX eec_workflow_signal_held ON ductor.eec_workflow_signal (position) WHERE disposition = '' AND is_held;
CREATE INDEX eec_workflow_signal_unconsumed ON ductor.eec_workflow_signal (run_id, kind)
    WHERE disposition IN ('', 'buffered');

CREATE TABLE ductor.eec_event (
    tenant text NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    payload json,
    published_at_us bigint NOT NULL,
    source text NOT NULL,
    is_matched boolean NOT NULL DEFAULT false,
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (tenant, event_id),
    CONSTRAINT eec_event_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_event_event_id CHECK (octet_length(event_id) <= 255),
    CONSTRAINT eec_event_name CHECK (octet_length(name) <= 255)
);
COMMENT ON TABLE ductor.eec_event IS 'The bus: events of each tenant, kept for a while.';
CREATE INDEX eec_event_in_order ON ductor.eec_event (position);
CREATE INDEX eec_event_by_name ON ductor.eec_event (tenant, name, published_at_us, position);
CREATE INDEX eec_event_unmatched ON ductor.eec_event (position) WHERE NOT is_matched;

CREATE TABLE ductor.eec_event_wait (
    run_id uuid NOT NULL,
    node text COLLATE "C" NOT NULL,
    index integer NOT NULL,
    tenant text NOT NULL,
    name text COLLATE "C" NOT NULL,
    since_us bigint NOT NULL,
    key_path text COLLATE "C" NOT NULL,
    key_value text COLLATE "C" NOT NULL,
    -- whether the events published before the wait was known have been looked through
    is_scanned boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, node, index),
    CONSTRAINT eec_event_wait_name CHECK (octet_length(name) <= 255),
    CONSTRAINT eec_event_wait_key_path CHECK (octet_length(key_path) <= 255),
    CONSTRAINT eec_event_wait_key_value CHECK (octet_length(key_value) <= 255)
);
COMMENT ON TABLE ductor.eec_event_wait IS 'Parked nodes that hear events, by what they wait for.';
CREATE INDEX eec_event_wait_by_event ON ductor.eec_event_wait
    (tenant, name, key_path, key_value, run_id, node, index);
CREATE INDEX eec_event_wait_unscanned ON ductor.eec_event_wait (run_id, node, index) WHERE NOT is_scanned;

CREATE TABLE ductor.eec_workflow_inbox (
    run_id uuid NOT NULL,
    node text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    title text NOT NULL,
    people json NOT NULL,
    status text NOT NULL,
    since_us bigint NOT NULL,
    due_at_us bigint,
    PRIMARY KEY (run_id, node)
);
COMMENT ON TABLE ductor.eec_workflow_inbox IS 'Parked nodes that wait for people.';
CREATE INDEX eec_workflow_inbox_by_tenant ON ductor.eec_workflow_inbox (tenant, run_id, node);

CREATE TABLE ductor.eec_workflow_inbox_person (
    run_id uuid NOT NULL,
    node text COLLATE "C" NOT NULL,
    -- empty where anybody may act
    person text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    PRIMARY KEY (run_id, node, person),
    CONSTRAINT eec_workflow_inbox_person_person CHECK (octet_length(person) <= 255)
);
COMMENT ON TABLE ductor.eec_workflow_inbox_person IS 'Who may act on an inbox row: the way from a person to it.';
CREATE INDEX eec_workflow_inbox_person_of_all ON ductor.eec_workflow_inbox_person (person, run_id, node);
CREATE INDEX eec_workflow_inbox_person_of_tenant ON ductor.eec_workflow_inbox_person (tenant, person, run_id, node);

CREATE TABLE ductor.eec_digest_wait (
    run_id uuid NOT NULL,
    node text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    item json NOT NULL,
    duration_ms bigint NOT NULL,
    max_items integer NOT NULL,
    -- orders the items of a window
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    is_joined boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, node),
    CONSTRAINT eec_digest_wait_key CHECK (octet_length(key) <= 255)
);
COMMENT ON TABLE ductor.eec_digest_wait IS 'Parked digest steps: what each of them brings to its window.';
CREATE INDEX eec_digest_wait_unjoined ON ductor.eec_digest_wait (position) WHERE NOT is_joined;

CREATE TABLE ductor.eec_digest_window (
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    -- null where the run that led the window has left it
    leader_run_id uuid,
    leader_generation integer NOT NULL,
    closes_at_us bigint NOT NULL,
    max_items integer NOT NULL,
    item_count integer NOT NULL,
    item_bytes bigint NOT NULL,
    PRIMARY KEY (tenant, definition, node, key)
);
COMMENT ON TABLE ductor.eec_digest_window IS 'Open windows of digests, each with the run that will be told its items.';
CREATE INDEX eec_digest_window_due ON ductor.eec_digest_window (closes_at_us) WHERE leader_run_id IS NOT NULL;

CREATE TABLE ductor.eec_digest_item (
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    run_id uuid NOT NULL,
    generation integer NOT NULL,
    item json NOT NULL,
    PRIMARY KEY (tenant, definition, node, key, position)
);
COMMENT ON TABLE ductor.eec_digest_item IS 'Items of open windows, in the order of joining.';

CREATE SEQUENCE ductor.eec_lease_fence AS bigint;
COMMENT ON SEQUENCE ductor.eec_lease_fence IS 'Fences of leases: one sequence serves all keys, so that each key''s grow.';

CREATE TABLE ductor.eec_lease (
    run_id uuid NOT NULL,
    -- '@run' for a whole run
    node text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    max_holders integer NOT NULL,
    -- orders those who wait
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- since it waits; since it holds where it does
    since_us bigint NOT NULL,
    -- 0 as long as it waits
    fence bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, node),
    CONSTRAINT eec_lease_key CHECK (octet_length(key) <= 255)
);
COMMENT ON TABLE ductor.eec_lease IS 'Holders of leases, and steps and runs that wait for one.';
CREATE INDEX eec_lease_waiting ON ductor.eec_lease (tenant, key, position) WHERE fence = 0;
CREATE INDEX eec_lease_held ON ductor.eec_lease (tenant, key, position) WHERE fence > 0;

CREATE TABLE ductor.eec_lease_look (
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (tenant, key, position)
);
COMMENT ON TABLE ductor.eec_lease_look IS
    'Keys at which something has changed, by a waiter that came or one who left, and that nobody has looked at yet.';

CREATE FUNCTION ductor.eec_grant_leases(in_tenant text, in_key text, grant_limit integer)
RETURNS TABLE (run_id uuid, node text, generation integer, fence bigint, message_id text, message_position bigint,
    at_us bigint)
LANGUAGE plpgsql
SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = 'off' SET enable_hashjoin = 'off'
SET enable_mergejoin = 'off' SET enable_bitmapscan = 'off' SET jit = 'off'
AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(in_key, hashtextextended(in_tenant, 2)));
    -- one snapshot, taken after the key was locked: it sees whatever has noted that the key has to be looked at
    RETURN QUERY
    WITH looked_at AS (
        DELETE FROM ductor.eec_lease_look WHERE tenant = in_tenant AND key = in_key
    ),
    first AS MATERIALIZED (
        SELECT l.run_id, l.node, l.max_holders, l.position FROM ductor.eec_lease l
        WHERE l.tenant = in_tenant AND l.key = in_key AND l.fence = 0
        ORDER BY l.position LIMIT grant_limit
    ),
    held AS MATERIALIZED (
        SELECT count(*) AS count FROM (
            SELECT FROM ductor.eec_lease l WHERE l.tenant = in_tenant AND l.key = in_key AND l.fence > 0
            ORDER BY l.position LIMIT (SELECT max(max_holders) FROM first)) AS h
    ),
    turns AS MATERIALIZED (
        SELECT t.run_id, t.node, bool_and(t.held_before < t.max_holders) OVER (ORDER BY t.position) AS is_free FROM (
            SELECT f.*, h.count + row_number() OVER (ORDER BY f.position) - 1 AS held_before
            FROM first f CROSS JOIN held h) AS t
    ),
    -- in the order in which commits lock them; a waiter that leaves at this moment is passed over, and notes the key
    locked AS MATERIALIZED (
        SELECT l.run_id, l.node FROM turns t JOIN ductor.eec_lease l ON l.run_id = t.run_id AND l.node = t.node
        WHERE t.is_free AND l.tenant = in_tenant AND l.key = in_key AND l.fence = 0
        ORDER BY l.run_id, l.node
        FOR UPDATE OF l
    ),
    granted AS (
        UPDATE ductor.eec_lease l SET fence = nextval('ductor.eec_lease_fence'), since_us = ductor.eec_now_us()
        FROM locked k WHERE l.run_id = k.run_id AND l.node = k.node
        RETURNING l.run_id, l.node, l.generation, l.fence, l.position
    ),
    told AS (
        INSERT INTO ductor.eec_workflow_signal AS m (run_id, message_id, kind, name, node, payload, by, at_us)
        SELECT g.run_id, 'lease:' || g.node || ':' || g.fence, 'lease', '', g.node,
            json_build_object('run_id', g.run_id, 'fence', g.fence, 'generation', g.generation), '', ductor.eec_now_us()
        FROM granted g
        ORDER BY g.run_id, g.node
        RETURNING m.run_id, m.message_id, m.position, m.at_us
    ),
    more AS (
        INSERT INTO ductor.eec_lease_look (tenant, key)
        SELECT in_tenant, in_key FROM granted HAVING count(*) = grant_limit
    )
    SELECT g.run_id, g.node, g.generation, g.fence, t.message_id, t.position, t.at_us
    FROM granted g JOIN told t ON t.run_id = g.run_id AND t.message_id = 'lease:' || g.node || ':' || g.fence
    ORDER BY g.position;
END $$;
COMMENT ON FUNCTION ductor.eec_grant_leases IS
    'Look at a key of leases: make holders of the waiters whose turn it is, and store the messages that tell their runs.';

CREATE TABLE ductor.eec_trigger (
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    index integer NOT NULL,
    manifest_hash text NOT NULL,
    event text NOT NULL,
    next_at_us bigint,
    PRIMARY KEY (tenant, definition, index),
    CONSTRAINT eec_trigger_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_trigger_definition CHECK (octet_length(definition) <= 255),
    CONSTRAINT eec_trigger_event CHECK (octet_length(event) <= 255)
);
COMMENT ON TABLE ductor.eec_trigger IS 'What starts runs by itself: events, and schedules with their next time.';
CREATE INDEX eec_trigger_by_event ON ductor.eec_trigger (tenant, event, definition, index) WHERE event <> '';
CREATE INDEX eec_trigger_due ON ductor.eec_trigger (next_at_us, tenant, definition, index) WHERE next_at_us IS NOT NULL;

CREATE TABLE ductor.eec_bulk_control (
    bulk_id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    -- null for all definitions of the tenant
    definition text,
    kind text NOT NULL,
    by text NOT NULL,
    reason text NOT NULL,
    requested_at_us bigint NOT NULL,
    -- orders those of a tenant
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    after_run_id uuid,
    requested bigint NOT NULL DEFAULT 0,
    -- 0 as long as it has not begun
    advanced_at_us bigint NOT NULL DEFAULT 0,
    finished_at_us bigint,
    CONSTRAINT eec_bulk_control_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_bulk_control_definition CHECK (octet_length(definition) <= 255)
);
COMMENT ON TABLE ductor.eec_bulk_control IS 'Controls asked of all runs of a tenant or a definition, and how far they have come.';
CREATE INDEX eec_bulk_control_unfinished ON ductor.eec_bulk_control (tenant, position) WHERE finished_at_us IS NULL;
CREATE INDEX eec_bulk_control_turns ON ductor.eec_bulk_control (tenant, advanced_at_us);

CREATE TABLE ductor.eec_definition (
    tenant text NOT NULL,
    name text NOT NULL,
    manifest_hash text NOT NULL,
    version text NOT NULL,
    manifest json NOT NULL,
    source text NOT NULL,
    file text NOT NULL,
    places json NOT NULL,
    published_at_us bigint NOT NULL,
    is_published boolean NOT NULL,
    -- publishing again moves a definition to the end
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (tenant, name, manifest_hash)
);
COMMENT ON TABLE ductor.eec_definition IS 'Published manifests by tenant and name.';
CREATE INDEX eec_definition_by_hash ON ductor.eec_definition (manifest_hash);

CREATE TABLE ductor.eec_host (
    host_id text PRIMARY KEY,
    started_at_us bigint NOT NULL,
    heartbeat_at_us bigint NOT NULL,
    tasks text[] NOT NULL,
    is_draining boolean NOT NULL DEFAULT false,
    -- tokens of attempts that the host holds although it does not own their runs
    guests text[] NOT NULL DEFAULT '{}',
    -- tokens of attempts, held by other hosts, that the runs in its hands want no more
    withdrawn text[] NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE ductor.eec_host IS 'Hosts and their latest heartbeat by the clock of the database.';

CREATE TABLE ductor.eec_worker (
    worker_id text COLLATE "C" PRIMARY KEY,
    queues text[] NOT NULL,
    tasks text[] NOT NULL,
    started_at_us bigint NOT NULL,
    heartbeat_at_us bigint NOT NULL
);
COMMENT ON TABLE ductor.eec_worker IS 'Workers and their latest heartbeat by the clock of the database.';

CREATE TABLE ductor.eec_run_set_aside (
    run_id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    host_id text NOT NULL,
    at_us bigint NOT NULL
);
COMMENT ON TABLE ductor.eec_run_set_aside IS 'Runs that hosts leave alone until somebody releases them.';

CREATE TABLE ductor.eec_attempt_loss (
    run_id uuid NOT NULL,
    token text COLLATE "C" NOT NULL,
    losses integer NOT NULL,
    count_id uuid NOT NULL, -- of the call that counted last: asked again it counts nothing
    last_at_us bigint NOT NULL,
    PRIMARY KEY (run_id, token)
);
COMMENT ON TABLE ductor.eec_attempt_loss IS
    'How often attempts were lost with hosts that had them, since their runs were released last.';

CREATE FUNCTION ductor.eec_now_us() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
COMMENT ON FUNCTION ductor.eec_now_us IS 'The clock of the database.';

CREATE FUNCTION ductor.eec_time(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT timestamptz 'epoch' + us * interval '1 microsecond' $$;
COMMENT ON FUNCTION ductor.eec_time IS 'A time of the journal as a timestamp, for people and reports.';

CREATE FUNCTION ductor.eec_partial_start() RETURNS bigint LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'a start lost to another transaction in mid-statement' USING ERRCODE = 'DU001'; END $$;
COMMENT ON FUNCTION ductor.eec_partial_start IS
    'Undoes a batch in which a start won its key or its head but not its first row; sent again it finds the winner.';

CREATE TABLE ductor.eec_projection (
    name text COLLATE "C" NOT NULL,
    -- each has its tables in a schema of its own
    generation integer NOT NULL,
    -- of the code that fills it
    revision integer NOT NULL,
    -- building: filled beside what is read; serving: what is read; retired: to be dropped
    stage text NOT NULL DEFAULT 'building',
    is_made boolean NOT NULL DEFAULT false,
    is_indexed boolean NOT NULL DEFAULT false,
    -- the place in the feed after which it goes on
    era integer NOT NULL DEFAULT 0,
    transaction_id bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT 0,
    applied_rows bigint NOT NULL DEFAULT 0,
    -- events of a newer version of the software, which were passed over
    skipped_events bigint NOT NULL DEFAULT 0,
    -- time of the last journal row applied
    applied_at_us bigint NOT NULL DEFAULT 0,
    -- which host fills it, and until when nobody else does
    leader text NOT NULL DEFAULT '',
    leased_until_us bigint NOT NULL DEFAULT 0,
    failed_at_us bigint,
    failed_run_id uuid,
    failed_version bigint,
    error text NOT NULL DEFAULT '',
    PRIMARY KEY (name, generation),
    CONSTRAINT eec_projection_stage CHECK (stage IN ('building', 'serving', 'retired'))
) WITH (fillfactor = 50);
COMMENT ON TABLE ductor.eec_projection IS 'Read models: how far each has come in the feed, and why one stands still.';
CREATE UNIQUE INDEX eec_projection_serving ON ductor.eec_projection (name) WHERE stage = 'serving';

-- The names, columns and types of reports are kept stable for whoever reads them. A projection puts its own query in the
-- place of the empty ones here once its model is complete.

CREATE VIEW ductor.report_runs AS SELECT
    NULL::uuid AS run_id, NULL::text AS tenant, NULL::text AS definition, NULL::text AS manifest_hash,
    NULL::text AS status, NULL::timestamptz AS started_at, NULL::timestamptz AS updated_at,
    NULL::timestamptz AS ended_at, NULL::bigint AS duration_ms, NULL::text AS key, NULL::uuid AS parent_run_id,
    NULL::uuid AS root_run_id, NULL::uuid AS continued_from_run_id, NULL::text AS error_type,
    NULL::text AS error_message, NULL::jsonb AS search_attributes, NULL::bigint AS version,
    NULL::bigint AS steps, NULL::bigint AS attempts, NULL::bigint AS journal_bytes
WHERE false;
COMMENT ON VIEW ductor.report_runs IS 'Every run, open or ended.';
COMMENT ON COLUMN ductor.report_runs.status IS
    'pending, running, waiting, paused, completed, failed, cancelled, terminated or continued.';
COMMENT ON COLUMN ductor.report_runs.updated_at IS 'Time of the newest journal row.';
COMMENT ON COLUMN ductor.report_runs.ended_at IS 'Null while the run is open.';
COMMENT ON COLUMN ductor.report_runs.duration_ms IS 'From start to end; null while the run is open.';
COMMENT ON COLUMN ductor.report_runs.key IS 'The start key; null where none was given.';
COMMENT ON COLUMN ductor.report_runs.continued_from_run_id IS 'The run whose work this one goes on with.';
COMMENT ON COLUMN ductor.report_runs.error_type IS 'Of the error that ended the run; null without one.';
COMMENT ON COLUMN ductor.report_runs.version IS 'Rows of its journal.';
COMMENT ON COLUMN ductor.report_runs.steps IS 'Steps that were carried out and have settled; skipped ones do not count.';
COMMENT ON COLUMN ductor.report_runs.attempts IS 'Attempts dispatched to workers.';
COMMENT ON COLUMN ductor.report_runs.journal_bytes IS 'JSON text of its events.';

CREATE VIEW ductor.report_step_statistics AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS step, NULL::timestamptz AS hour,
    NULL::bigint AS settled, NULL::bigint AS succeeded, NULL::bigint AS failed, NULL::bigint AS skipped,
    NULL::bigint AS cancelled, NULL::bigint AS attempts, NULL::bigint AS attempts_failed, NULL::bigint AS attempt_ms,
    NULL::bigint AS duration_ms, NULL::double precision AS duration_ms_p50,
    NULL::double precision AS duration_ms_p95, NULL::double precision AS duration_ms_p99,
    NULL::double precision AS duration_ms_max
WHERE false;
COMMENT ON VIEW ductor.report_step_statistics IS 'What became of each step of each definition, by the hour in which it settled.';
COMMENT ON COLUMN ductor.report_step_statistics.hour IS 'Beginning of the hour (UTC).';
COMMENT ON COLUMN ductor.report_step_statistics.settled IS 'All that settled: succeeded, failed, skipped and cancelled.';
COMMENT ON COLUMN ductor.report_step_statistics.attempts IS 'Attempts that finished in the hour.';
COMMENT ON COLUMN ductor.report_step_statistics.attempts_failed IS 'Those of them that failed, retried or not.';
COMMENT ON COLUMN ductor.report_step_statistics.attempt_ms IS 'Time that workers spent on attempts, in all.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms IS
    'From the first attempt or the beginning of the wait to the end, retries included, in all; skipped steps have none.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_p50 IS 'Median duration, right within 5 %.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_p95 IS 'Right within 5 %.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_p99 IS 'Right within 5 %.';
COMMENT ON COLUMN ductor.report_step_statistics.duration_ms_max IS 'Exact.';

CREATE VIEW ductor.report_step_durations AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS step, NULL::timestamptz AS hour,
    NULL::integer AS bucket, NULL::double precision AS from_ms, NULL::double precision AS to_ms, NULL::bigint AS count
WHERE false;
COMMENT ON VIEW ductor.report_step_durations IS
    'The histograms behind report_step_statistics: to get a percentile over several hours or steps, add up counts.';
COMMENT ON COLUMN ductor.report_step_durations.to_ms IS 'A bucket is 10 % wide: its upper end is 1.1 times its lower one.';

CREATE VIEW ductor.report_step_failures AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS step, NULL::timestamptz AS hour,
    NULL::text AS error_type, NULL::bigint AS failed, NULL::bigint AS attempts_failed, NULL::uuid AS last_run_id,
    NULL::timestamptz AS last_at
WHERE false;
COMMENT ON VIEW ductor.report_step_failures IS 'Failures of steps by the type of the error, and by hour.';
COMMENT ON COLUMN ductor.report_step_failures.failed IS 'Steps that failed for good.';
COMMENT ON COLUMN ductor.report_step_failures.attempts_failed IS 'Attempts that failed, retried or not.';
COMMENT ON COLUMN ductor.report_step_failures.last_run_id IS 'A run to look at: the latest of the hour.';

CREATE VIEW ductor.report_usage AS SELECT
    NULL::text AS tenant, NULL::date AS day, NULL::bigint AS runs_started, NULL::bigint AS runs_ended,
    NULL::bigint AS runs_completed, NULL::bigint AS runs_failed, NULL::bigint AS steps, NULL::bigint AS attempts,
    NULL::double precision AS attempt_seconds, NULL::bigint AS journal_rows, NULL::bigint AS journal_bytes
WHERE false;
COMMENT ON VIEW ductor.report_usage IS 'What each tenant has used on each day (UTC).';
COMMENT ON COLUMN ductor.report_usage.runs_ended IS 'However they ended; a run that was redriven ends again.';
COMMENT ON COLUMN ductor.report_usage.steps IS 'Steps that settled; skipped ones do not count.';
COMMENT ON COLUMN ductor.report_usage.attempts IS 'Attempts that finished.';
COMMENT ON COLUMN ductor.report_usage.attempt_seconds IS 'Time that workers spent on them.';
COMMENT ON COLUMN ductor.report_usage.journal_bytes IS 'JSON text of the events written.';

CREATE VIEW ductor.report_funnel AS SELECT
    NULL::text AS tenant, NULL::text AS definition, NULL::text AS manifest_hash, NULL::text AS measure,
    NULL::text AS step, NULL::text AS target, NULL::bigint AS count
WHERE false;
COMMENT ON VIEW ductor.report_funnel IS 'How runs of each version of a definition went through its graph.';
COMMENT ON COLUMN ductor.report_funnel.measure IS
    'started (runs), entered (step began), settled (step, target: its status), taken and untaken (edge step to target), ended (runs; step: the one that decided it, target: the status of the run).';
COMMENT ON COLUMN ductor.report_funnel.step IS 'Empty where the measure is about no step.';
COMMENT ON COLUMN ductor.report_funnel.target IS 'A step or a status, as the measure says; empty for none.';

CREATE VIEW ductor.report_inbox AS SELECT
    i.run_id, i.tenant, r.definition, i.node AS step, i.kind, i.title, i.people::jsonb AS people, i.status,
    ductor.eec_time(i.since_us) AS since, ductor.eec_time(i.due_at_us) AS due_at
FROM ductor.eec_workflow_inbox i JOIN ductor.eec_workflow_run r USING (run_id);
COMMENT ON VIEW ductor.report_inbox IS 'What waits for people now; kept with the journal itself, so it is never behind.';
COMMENT ON COLUMN ductor.report_inbox.people IS 'Who may act, a JSON list; empty for anybody.';
COMMENT ON COLUMN ductor.report_inbox.since IS 'Since when it waits.';
COMMENT ON COLUMN ductor.report_inbox.due_at IS 'When it stops to wait; null for never.';

CREATE VIEW ductor.report_health AS
SELECT 'runs' AS measure, status AS subject, count(*) AS count, ductor.eec_time(min(updated_at_us)) AS since,
    '' AS detail
FROM ductor.eec_workflow_run WHERE status IN ('pending', 'running', 'waiting', 'paused') GROUP BY status
UNION ALL
SELECT 'overdue timers', '', count(*), ductor.eec_time(min(t.due_at_us)), ''
FROM ductor.eec_workflow_timer t JOIN ductor.eec_workflow_run r USING (run_id)
WHERE t.due_at_us < ductor.eec_now_us() - 60000000 AND r.status IN ('pending', 'running', 'waiting')
UNION ALL
SELECT 'unapplied controls', '', count(*), ductor.eec_time(min(requested_at_us)), ''
FROM ductor.eec_workflow_control WHERE disposition = ''
UNION ALL
SELECT 'unapplied results', '', count(*), ductor.eec_time(min(finished_at_us)), ''
FROM ductor.eec_workflow_step_attempt WHERE disposition = '' AND NOT is_held
UNION ALL
SELECT 'unapplied messages', '', count(*), ductor.eec_time(min(at_us)), ''
FROM ductor.eec_workflow_signal WHERE disposition = '' AND NOT is_held
UNION ALL
SELECT 'inbox', kind, count(*), ductor.eec_time(min(since_us)), '' FROM ductor.eec_workflow_inbox GROUP BY kind
UNION ALL
SELECT 'hosts', '', count(*), ductor.eec_time(min(started_at_us)), ''
FROM ductor.eec_host WHERE heartbeat_at_us > ductor.eec_now_us() - 20000000
UNION ALL
SELECT 'projection', p.name || CASE WHEN p.stage = 'building' THEN ' (building)' ELSE '' END, behind.rows,
    ductor.eec_time(behind.oldest_at_us), p.error
FROM ductor.eec_projection p CROSS JOIN LATERAL (
    SELECT count(*) AS rows, min(at_us) AS oldest_at_us FROM (
        SELECT at_us FROM ductor.eec_workflow_transition t
        WHERE (t.era, t.transaction_id, t.position) > (p.era, p.transaction_id::text::xid8, p.position)
        ORDER BY t.era, t.transaction_id, t.position LIMIT 10000
    ) AS next
) AS behind
WHERE p.stage <> 'retired';
COMMENT ON VIEW ductor.report_health IS 'The state of the whole now: what is open, what waits for a host, and how far reports are behind.';
COMMENT ON COLUMN ductor.report_health.measure IS
    'runs (open, by status), overdue timers (by more than a minute), unapplied controls, results and messages, inbox (by kind), hosts (alive), projection (rows not yet applied, 10,000 at most).';
COMMENT ON COLUMN ductor.report_health.since IS 'The oldest of them; of a run, when its status last changed.';
COMMENT ON COLUMN ductor.report_health.detail IS 'Why a projection stands still; empty for nothing to tell.';

-- The PostgreSQL tier of the distributed queue: items that wait for workers of other processes, in lanes by tenant.
--
-- Locks, so that nobody waits in a circle:
-- * leasing from one queue is serial: an advisory lock until the end of the transaction, which writes no further than to
--   memory before it answers (a lease that a crash forgets is an item that is queued again);
-- * who queues items first holds their lanes FOR KEY SHARE, in the order of tenants, which stops nobody but him who would
--   call a lane empty; a lane that is held so stays ready;
-- * items are taken with SKIP LOCKED; who removes or returns items locks them in the order of tokens;
-- * who ends leases frees only those lanes that nobody else has locked; the others are looked at again in a moment.

CREATE TABLE ductor.eec_task_queue (
    queue text COLLATE "C" PRIMARY KEY,
    virtual_time double precision NOT NULL DEFAULT 0,
    max_queued bigint NOT NULL DEFAULT 1000000,
    max_in_flight bigint,
    -- how many were queued when they were last counted
    queued bigint NOT NULL DEFAULT 0,
    counted_at_us bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE ductor.eec_task_queue IS 'Queues of the PostgreSQL tier: their bounds, and how far their turns have come.';

CREATE TABLE ductor.eec_task_lane (
    queue text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    weight integer NOT NULL DEFAULT 1,
    max_in_flight bigint,
    rate_per_s double precision,
    burst integer NOT NULL DEFAULT 1,
    virtual_time double precision NOT NULL DEFAULT 0,
    is_ready boolean NOT NULL DEFAULT false,
    -- null unless the cap or the rate holds the lane back; then when to look again
    blocked_until_us bigint,
    is_capped boolean NOT NULL DEFAULT false,
    rate_tokens double precision,
    refilled_at_us bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE ductor.eec_task_lane IS 'Tenants of the queues: how each is served, and whose turn it is.';
CREATE INDEX eec_task_lane_ready ON ductor.eec_task_lane (queue, virtual_time, tenant) WHERE is_ready;
CREATE INDEX eec_task_lane_blocked ON ductor.eec_task_lane (queue, blocked_until_us) WHERE blocked_until_us IS NOT NULL;

CREATE TABLE ductor.eec_task_item (
    queue text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    -- orders the items of a lane; a redelivered one has its old place
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    enqueued_at_us bigint NOT NULL,
    body bytea NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'queued',
    deliveries integer NOT NULL DEFAULT 0,
    receipt bigint NOT NULL DEFAULT 0,
    -- when the lease runs out; of an item set aside, since when it is
    until_us bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, token),
    CONSTRAINT eec_task_item_queue CHECK (octet_length(queue) <= 255),
    CONSTRAINT eec_task_item_token CHECK (octet_length(token) <= 512),
    CONSTRAINT eec_task_item_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_task_item_state CHECK (state IN ('queued', 'leased', 'dead'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
COMMENT ON TABLE ductor.eec_task_item IS 'Attempts and wakeups that wait for another process, are leased by one, or are set aside as poisoned.';
CREATE INDEX eec_task_item_queued ON ductor.eec_task_item (queue, tenant, priority DESC, position) WHERE state = 'queued';
CREATE INDEX eec_task_item_leased ON ductor.eec_task_item (queue, tenant) WHERE state = 'leased';
CREATE INDEX eec_task_item_due ON ductor.eec_task_item (queue, until_us) WHERE state = 'leased';
CREATE INDEX eec_task_item_dead ON ductor.eec_task_item (queue, until_us) WHERE state = 'dead';

CREATE SEQUENCE ductor.eec_task_receipt CACHE 32;

CREATE FUNCTION ductor.eec_lock_task_queue(in_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(in_queue, 6379));
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO ductor.eec_task_queue (queue) VALUES (in_queue) ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION ductor.eec_lock_task_queue IS 'Be the only one who leases from the queue until the end of the transaction.';

CREATE FUNCTION ductor.eec_hold_task_lanes(in_queue text, tenants text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ductor.eec_task_lane (queue, tenant)
    SELECT in_queue, w.tenant COLLATE "C" FROM (SELECT DISTINCT unnest(tenants) AS tenant) w
    WHERE NOT EXISTS (SELECT FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.tenant = w.tenant)
    ORDER BY 2
    ON CONFLICT DO NOTHING;
    PERFORM FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.tenant = ANY (tenants)
    ORDER BY l.tenant FOR KEY SHARE;
END $$;
COMMENT ON FUNCTION ductor.eec_hold_task_lanes IS 'Keep lanes from being called empty until the end of the transaction.';

CREATE FUNCTION ductor.eec_ready_task_lanes(in_queue text, tenants text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lane record;
BEGIN
    FOR lane IN
        SELECT l.tenant FROM ductor.eec_task_lane l
        WHERE l.queue = in_queue AND l.tenant = ANY (tenants) AND NOT l.is_ready AND l.blocked_until_us IS NULL
        ORDER BY l.tenant FOR NO KEY UPDATE
    LOOP
        UPDATE ductor.eec_task_lane l
        SET is_ready = true, virtual_time = greatest(l.virtual_time,
            coalesce((SELECT q.virtual_time FROM ductor.eec_task_queue q WHERE q.queue = in_queue), 0))
        WHERE l.queue = in_queue AND l.tenant = lane.tenant;
    END LOOP;
END $$;
COMMENT ON FUNCTION ductor.eec_ready_task_lanes IS 'Let lanes that have items be served.';

CREATE FUNCTION ductor.eec_free_task_lanes(in_queue text, tenants text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ductor.eec_task_lane l
    SET is_ready = true, is_capped = false, blocked_until_us = NULL, virtual_time = greatest(l.virtual_time,
        coalesce((SELECT q.virtual_time FROM ductor.eec_task_queue q WHERE q.queue = in_queue), 0))
    FROM (
        SELECT f.tenant FROM ductor.eec_task_lane f
        WHERE f.queue = in_queue AND f.tenant = ANY (tenants) AND f.is_capped
        FOR NO KEY UPDATE SKIP LOCKED
    ) freed
    WHERE l.queue = in_queue AND l.tenant = freed.tenant;
END $$;
COMMENT ON FUNCTION ductor.eec_free_task_lanes IS 'Look again at lanes whose cap was reached: a lease of theirs has ended.';

CREATE FUNCTION ductor.eec_task_room(in_queue text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    exact_up_to CONSTANT bigint := 1000;
    counted_for_us CONSTANT bigint := 1000000;
    bounds record;
    counted bigint;
BEGIN
    SELECT q.max_queued, q.queued, q.counted_at_us INTO bounds FROM ductor.eec_task_queue q WHERE q.queue = in_queue;
    IF NOT FOUND THEN
        RETURN 1000000;
    END IF;
    IF bounds.max_queued > exact_up_to AND bounds.counted_at_us > ductor.eec_now_us() - counted_for_us THEN
        RETURN bounds.max_queued - bounds.queued;
    END IF;
    SELECT count(*) INTO counted FROM (
        SELECT FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.state = 'queued' LIMIT bounds.max_queued
    ) AS queued;
    UPDATE ductor.eec_task_queue q SET queued = counted, counted_at_us = ductor.eec_now_us()
    FROM (SELECT c.queue FROM ductor.eec_task_queue c WHERE c.queue = in_queue FOR NO KEY UPDATE SKIP LOCKED) AS free
    WHERE q.queue = free.queue;
    RETURN bounds.max_queued - counted;
END $$;
COMMENT ON FUNCTION ductor.eec_task_room IS 'How many items more the queue takes; with a large cap counted once a second.';

CREATE FUNCTION ductor.eec_enqueue_tasks(
    in_queue text, tokens text[], tenants text[], priorities integer[], bodies bytea[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    room bigint;
    present text[];
    wanted text[];
    inserted text[];
BEGIN
    SELECT coalesce(array_agg(i.token), '{}') INTO present
    FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens);
    room := ductor.eec_task_room(in_queue);
    SELECT coalesce(array_agg(w.token), '{}') INTO wanted FROM (
        SELECT first.token FROM (
            SELECT n.token, min(n.number) AS number FROM unnest(tokens) WITH ORDINALITY AS n (token, number)
            WHERE n.token <> ALL (present) GROUP BY n.token
        ) AS first ORDER BY first.number LIMIT greatest(room, 0)
    ) AS w;
    IF cardinality(wanted) > 0 THEN
        PERFORM ductor.eec_hold_task_lanes(in_queue, tenants);
        WITH added AS (
            INSERT INTO ductor.eec_task_item (queue, token, tenant, priority, enqueued_at_us, body)
            SELECT in_queue, n.token, n.tenant, n.priority, ductor.eec_now_us(), n.body
            FROM unnest(tokens, tenants, priorities, bodies) WITH ORDINALITY AS n (token, tenant, priority, body, number)
            WHERE n.token = ANY (wanted)
            ORDER BY n.number
            ON CONFLICT (queue, token) DO NOTHING
            RETURNING token
        )
        SELECT coalesce(array_agg(a.token), '{}') INTO inserted FROM added a;
        PERFORM ductor.eec_ready_task_lanes(in_queue, tenants);
    END IF;
    RETURN (
        SELECT coalesce(array_agg(
            CASE WHEN n.token = ANY (present) THEN 'held'
                WHEN n.token <> ALL (wanted) THEN 'refused'
                WHEN n.token = ANY (inserted) AND n.number = n.first_number THEN 'enqueued'
                ELSE 'held' END ORDER BY n.number), '{}')
        FROM (
            SELECT u.token, u.number, min(u.number) OVER (PARTITION BY u.token) AS first_number
            FROM unnest(tokens) WITH ORDINALITY AS u (token, number)
        ) AS n
    );
END $$;
COMMENT ON FUNCTION ductor.eec_enqueue_tasks IS 'Hold items, and say what became of each: enqueued, held before, refused.';

CREATE FUNCTION ductor.eec_take_back_tasks(in_queue text, max_items integer, max_deliveries integer, max_dead integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    now_us CONSTANT bigint := ductor.eec_now_us();
    ended text[];
    requeued text[];
BEGIN
    PERFORM ductor.eec_lock_task_queue(in_queue);
    WITH expired AS MATERIALIZED (
        SELECT i.token FROM ductor.eec_task_item i
        WHERE i.queue = in_queue AND i.state = 'leased' AND i.until_us <= now_us
        ORDER BY i.until_us LIMIT max_items FOR UPDATE SKIP LOCKED
    ), changed AS (
        UPDATE ductor.eec_task_item i
        SET state = CASE WHEN i.deliveries >= max_deliveries THEN 'dead' ELSE 'queued' END, until_us = now_us
        FROM expired e WHERE i.queue = in_queue AND i.token = e.token
        RETURNING i.tenant, i.state
    )
    SELECT array_agg(c.tenant), array_agg(c.tenant) FILTER (WHERE c.state = 'queued') INTO ended, requeued FROM changed c;
    IF ended IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM ductor.eec_ready_task_lanes(in_queue, requeued);
    PERFORM ductor.eec_free_task_lanes(in_queue, ended);
    IF cardinality(ended) > coalesce(cardinality(requeued), 0) THEN
        DELETE FROM ductor.eec_task_item i USING (
            SELECT d.token FROM ductor.eec_task_item d WHERE d.queue = in_queue AND d.state = 'dead'
            ORDER BY d.until_us DESC OFFSET max_dead
        ) AS over
        WHERE i.queue = in_queue AND i.token = over.token;
    END IF;
    RETURN cardinality(ended);
END $$;
COMMENT ON FUNCTION ductor.eec_take_back_tasks IS 'Queue items whose lease ran out, or set them aside; how many.';

CREATE FUNCTION ductor.eec_hold_back_task_lane(lane ductor.eec_task_lane, in_flight bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    capped_for_us CONSTANT bigint := 250000;
    now_us CONSTANT bigint := ductor.eec_now_us();
    have double precision;
BEGIN
    IF lane.max_in_flight <= in_flight THEN
        UPDATE ductor.eec_task_lane l SET is_ready = false, is_capped = true, blocked_until_us = now_us + capped_for_us
        WHERE l.queue = lane.queue AND l.tenant = lane.tenant;
        RETURN true;
    END IF;
    IF lane.rate_per_s IS NULL THEN
        RETURN false;
    END IF;
    have := coalesce(lane.rate_tokens, lane.burst);
    have := least(lane.burst, have + greatest(0, now_us - lane.refilled_at_us) * lane.rate_per_s / 1e6);
    UPDATE ductor.eec_task_lane l
    SET rate_tokens = CASE WHEN have < 1 THEN have ELSE have - 1 END, refilled_at_us = now_us, is_ready = have >= 1,
        blocked_until_us = CASE WHEN have < 1 THEN now_us + floor((1 - have) / lane.rate_per_s * 1e6)::bigint + 1 END
    WHERE l.queue = lane.queue AND l.tenant = lane.tenant;
    RETURN have < 1;
END $$;
COMMENT ON FUNCTION ductor.eec_hold_back_task_lane IS
    'Block the lane if its cap or its rate allows no delivery now; else take one from its rate.';

CREATE FUNCTION ductor.eec_lease_tasks(
    in_queue text, wanted integer, visibility_us bigint, max_deliveries integer, max_dead integer, max_taken_back integer,
    lanes_looked_at integer
) RETURNS TABLE (
    out_token text, out_tenant text, out_priority smallint, out_receipt bigint, out_delivery integer, out_body bytea,
    out_due_in_us bigint
) LANGUAGE plpgsql AS $$
DECLARE
    lanes_blocked_max CONSTANT integer := 64;
    blocked integer := 0;
    taken_back integer;
    queue_row ductor.eec_task_queue;
    all_in_flight bigint;
    ready_lanes bigint;
    lanes ductor.eec_task_lane[];
    lane ductor.eec_task_lane;
    -- lanes without another item that can be seen
    passed text[] := '{}';
    -- the next items of lanes that had their turn, one lane after the other: where each begins, goes on and ends
    fetched text[] := '{}';
    tokens text[] := '{}';
    begin_at integer[] := '{}';
    next_at integer[] := '{}';
    end_at integer[] := '{}';
    found text[];
    place integer;
    chosen text[] := '{}';
    weights double precision;
    began double precision;
    lane_in_flight bigint;
BEGIN
    taken_back := ductor.eec_take_back_tasks(in_queue, max_taken_back, max_deliveries, max_dead);
    UPDATE ductor.eec_task_lane l SET is_ready = true, is_capped = false, blocked_until_us = NULL,
        virtual_time = greatest(l.virtual_time, q.virtual_time)
    FROM ductor.eec_task_queue q, (
        SELECT b.tenant FROM ductor.eec_task_lane b
        WHERE b.queue = in_queue AND b.blocked_until_us <= ductor.eec_now_us()
        LIMIT lanes_blocked_max FOR NO KEY UPDATE SKIP LOCKED
    ) AS due
    WHERE q.queue = in_queue AND l.queue = in_queue AND l.tenant = due.tenant;
    SELECT * INTO queue_row FROM ductor.eec_task_queue q WHERE q.queue = in_queue;
    SELECT count(*) INTO all_in_flight FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.state = 'leased';
    SELECT count(*) INTO ready_lanes FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.is_ready;
    WHILE wanted > 0 AND (queue_row.max_in_flight IS NULL OR all_in_flight < queue_row.max_in_flight) LOOP
        SELECT array_agg(f.lane ORDER BY (f.lane).virtual_time, (f.lane).tenant) INTO lanes FROM (
            SELECT l AS lane FROM ductor.eec_task_lane l
            WHERE l.queue = in_queue AND l.is_ready AND l.tenant <> ALL (passed)
            ORDER BY l.virtual_time, l.tenant LIMIT lanes_looked_at
        ) AS f;
        EXIT WHEN lanes IS NULL;
        lane := lanes[1];
        lane_in_flight := NULL;
        IF cardinality(lanes) > 1 THEN
            weights := (SELECT sum(l.weight) FROM unnest(lanes) AS l) * ready_lanes / cardinality(lanes)::double precision;
            FOR number IN 1 .. cardinality(lanes) LOOP
                place := array_position(fetched, lanes[number].tenant);
                lane_in_flight := coalesce(next_at[place] - begin_at[place], 0) + (
                    SELECT count(*) FROM ductor.eec_task_item i
                    WHERE i.queue = in_queue AND i.tenant = lanes[number].tenant AND i.state = 'leased');
                IF lane_in_flight < ceil(lanes[number].weight / weights * (all_in_flight + 1) - 1e-9) THEN
                    lane := lanes[number];
                    EXIT;
                END IF;
                lane_in_flight := NULL;
            END LOOP;
        END IF;
        place := array_position(fetched, lane.tenant);
        IF lane.max_in_flight IS NOT NULL AND lane_in_flight IS NULL THEN
            lane_in_flight := coalesce(next_at[place] - begin_at[place], 0) + (
                SELECT count(*) FROM ductor.eec_task_item i
                WHERE i.queue = in_queue AND i.tenant = lane.tenant AND i.state = 'leased');
        END IF;
        IF ductor.eec_hold_back_task_lane(lane, lane_in_flight) THEN
            ready_lanes := ready_lanes - 1;
            blocked := blocked + 1;
            EXIT WHEN blocked = lanes_blocked_max;
            CONTINUE;
        END IF;
        IF place IS NULL THEN
            SELECT coalesce(array_agg(f.token ORDER BY f.priority DESC, f.position), '{}') INTO found FROM (
                SELECT i.token, i.priority, i.position FROM ductor.eec_task_item i
                WHERE i.queue = in_queue AND i.tenant = lane.tenant AND i.state = 'queued'
                ORDER BY i.priority DESC, i.position LIMIT wanted + 1 FOR UPDATE SKIP LOCKED
            ) AS f;
            fetched := fetched || lane.tenant;
            place := cardinality(fetched);
            begin_at := begin_at || cardinality(tokens) + 1;
            next_at := next_at || cardinality(tokens) + 1;
            tokens := tokens || found;
            end_at := end_at || cardinality(tokens);
        END IF;
        IF next_at[place] <= end_at[place] THEN
            chosen := chosen || tokens[next_at[place]];
            next_at[place] := next_at[place] + 1;
            began := greatest(lane.virtual_time, queue_row.virtual_time);
            queue_row.virtual_time := began;
            UPDATE ductor.eec_task_lane l SET virtual_time = began + 1 / lane.weight::double precision
            WHERE l.queue = in_queue AND l.tenant = lane.tenant;
            wanted := wanted - 1;
            all_in_flight := all_in_flight + 1;
        END IF;
        IF next_at[place] > end_at[place] THEN
            passed := passed || lane.tenant;
            ready_lanes := ready_lanes - 1;
        END IF;
    END LOOP;
    RETURN QUERY
        WITH leased AS (
            UPDATE ductor.eec_task_item i
            SET state = 'leased', deliveries = i.deliveries + 1, receipt = nextval('ductor.eec_task_receipt'),
                until_us = ductor.eec_now_us() + visibility_us
            FROM unnest(chosen) WITH ORDINALITY AS c (token, number)
            WHERE i.queue = in_queue AND i.token = c.token
            RETURNING i.token, i.tenant, i.priority, i.receipt, i.deliveries, i.body, c.number
        )
        SELECT l.token, l.tenant, l.priority, l.receipt, l.deliveries, l.body, NULL::bigint FROM leased l ORDER BY l.number;
    FOR number IN 1 .. cardinality(passed) LOOP
        PERFORM ductor.eec_rest_task_lane(in_queue, passed[number]);
    END LOOP;
    UPDATE ductor.eec_task_queue q SET virtual_time = queue_row.virtual_time
    WHERE q.queue = in_queue AND q.virtual_time <> queue_row.virtual_time;
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, least(
        (SELECT min(l.blocked_until_us) FROM ductor.eec_task_lane l
            WHERE l.queue = in_queue AND l.blocked_until_us IS NOT NULL),
        (SELECT min(i.until_us) FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.state = 'leased')
    ) - ductor.eec_now_us()
    INTO out_token, out_tenant, out_priority, out_receipt, out_delivery, out_body, out_due_in_us;
    IF blocked = lanes_blocked_max THEN
        out_due_in_us := 0;
    END IF;
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION ductor.eec_lease_tasks IS
    'Take items by the rule of fairness; the last row tells in how long something is due by itself.';

CREATE FUNCTION ductor.eec_rest_task_lane(in_queue text, in_tenant text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM ductor.eec_task_lane l WHERE l.queue = in_queue AND l.tenant = in_tenant FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- a statement of its own sees what was committed before the lock was had
    UPDATE ductor.eec_task_lane l SET is_ready = false
    WHERE l.queue = in_queue AND l.tenant = in_tenant AND NOT EXISTS (
        SELECT FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.tenant = in_tenant AND i.state = 'queued');
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION ductor.eec_rest_task_lane IS 'Call a lane empty if it is and nobody is queueing into it; whether it was done.';

CREATE FUNCTION ductor.eec_remove_tasks(in_queue text, tokens text[], receipts bigint[], only_dead boolean)
RETURNS TABLE (out_token text, out_state text, out_holds boolean) LANGUAGE plpgsql AS $$
DECLARE
    ended text[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens) ORDER BY i.token FOR UPDATE;
    SELECT array_agg(i.tenant) INTO ended FROM ductor.eec_task_item i
    WHERE i.queue = in_queue AND i.token = ANY (tokens) AND i.state = 'leased' AND NOT only_dead;
    RETURN QUERY
        DELETE FROM ductor.eec_task_item i USING unnest(tokens, receipts) AS w (token, receipt)
        WHERE i.queue = in_queue AND i.token = w.token AND (i.state = 'dead' OR NOT only_dead)
        RETURNING i.token, i.state, i.state = 'leased' AND i.receipt = w.receipt;
    IF ended IS NOT NULL THEN
        PERFORM ductor.eec_free_task_lanes(in_queue, ended);
    END IF;
END $$;
COMMENT ON FUNCTION ductor.eec_remove_tasks IS 'Remove items; how each stood, and whether the receipt was that of its lease.';

CREATE FUNCTION ductor.eec_requeue_tasks(in_queue text, tokens text[], receipts bigint[]) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    touched text[];
BEGIN
    SELECT array_agg(i.tenant) INTO touched FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens);
    IF touched IS NULL THEN
        RETURN;
    END IF;
    PERFORM ductor.eec_hold_task_lanes(in_queue, touched);
    PERFORM FROM ductor.eec_task_item i WHERE i.queue = in_queue AND i.token = ANY (tokens) ORDER BY i.token FOR UPDATE;
    RETURN QUERY
        UPDATE ductor.eec_task_item i
        SET state = 'queued', receipt = 0, deliveries = CASE WHEN i.state = 'dead' THEN 0 ELSE i.deliveries - 1 END
        FROM unnest(tokens, receipts) AS w (token, receipt)
        WHERE i.queue = in_queue AND i.token = w.token
            AND (i.state = 'dead' AND w.receipt = 0 OR i.state = 'leased' AND i.receipt = w.receipt)
        RETURNING i.token;
    PERFORM ductor.eec_ready_task_lanes(in_queue, touched);
    PERFORM ductor.eec_free_task_lanes(in_queue, touched);
END $$;
COMMENT ON FUNCTION ductor.eec_requeue_tasks IS
    'Queue items again: leased ones that are returned with their receipt, or dead ones (receipt 0).';
