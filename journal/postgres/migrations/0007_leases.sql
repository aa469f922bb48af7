-- Leases: who holds a key, who waits for it in which order, and which keys somebody has to look at.

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
