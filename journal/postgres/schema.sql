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
    PRIMARY KEY (run_id, node, generation)
);
COMMENT ON TABLE ductor.eec_workflow_step_attempt IS 'Results that could not ride in a tick, and what became of them.';
CREATE INDEX eec_workflow_step_attempt_waiting ON ductor.eec_workflow_step_attempt (position) WHERE disposition = '';

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
