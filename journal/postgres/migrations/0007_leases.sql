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
