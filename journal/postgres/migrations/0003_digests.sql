-- Digests: what parked steps bring, and the windows that gather it.

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
