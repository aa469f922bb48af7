-- What waits, and what wakes it: messages, the event bus, the inbox of people, triggers.

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
    PRIMARY KEY (run_id, message_id),
    -- an event's own id has 255 bytes at most; here `event:` stands before it
    CONSTRAINT eec_workflow_signal_message_id CHECK (octet_length(message_id) <= 261)
);
COMMENT ON TABLE ductor.eec_workflow_signal IS
    'Messages to a run: signals, events, votes and replies, and what became of them.';
CREATE INDEX eec_workflow_signal_waiting ON ductor.eec_workflow_signal (position) WHERE disposition = '';
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

CREATE INDEX eec_workflow_run_open ON ductor.eec_workflow_run (tenant, definition, run_id)
    WHERE status IN ('pending', 'running', 'waiting', 'paused');
