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
    CONSTRAINT eec_workflow_run_tenant CHECK (octet_length(tenant) <= 255),
    CONSTRAINT eec_workflow_run_definition CHECK (octet_length(definition) <= 255),
    CONSTRAINT eec_workflow_run_key CHECK (octet_length(key) <= 255)
) WITH (fillfactor = 80);
COMMENT ON TABLE ductor.eec_workflow_run IS 'The head of each run: what people filter by.';
CREATE INDEX eec_workflow_run_by_definition ON ductor.eec_workflow_run (tenant, definition, run_id);
CREATE INDEX eec_workflow_run_to_recover ON ductor.eec_workflow_run (run_id) WHERE status IN ('pending', 'running');
CREATE INDEX eec_workflow_run_open ON ductor.eec_workflow_run (tenant, definition, run_id)
    WHERE status IN ('pending', 'running', 'waiting', 'paused');

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
    tasks text[] NOT NULL
);
COMMENT ON TABLE ductor.eec_host IS 'Hosts and their latest heartbeat by the clock of the database.';

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
