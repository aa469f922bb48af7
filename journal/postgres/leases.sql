-- Leases. A transaction that looks at a key locks it by name first, then the waiters it grants in order of run and node,
-- as every commit does.

-- name: lock_lease_key
SELECT pg_advisory_xact_lock(hashtextextended(:name::text, 2))

-- name: grant_leases
-- One snapshot, taken after the key was locked: what noted that the key has to be looked at before, it sees.
-- A waiter whose turn it is may leave at this moment: it is passed over, and has noted the key again.
WITH looked_at AS (
    DELETE FROM ductor.eec_lease_look WHERE tenant = :tenant::text AND key = :key::text
),
first AS MATERIALIZED (
    SELECT run_id, node, max_holders, position FROM ductor.eec_lease
    WHERE tenant = :tenant::text AND key = :key::text AND fence = 0
    ORDER BY position LIMIT :limit::integer
),
held AS MATERIALIZED (
    SELECT count(*) AS count FROM (
        SELECT FROM ductor.eec_lease WHERE tenant = :tenant::text AND key = :key::text AND fence > 0
        ORDER BY position LIMIT (SELECT max(max_holders) FROM first)) AS h
),
turns AS MATERIALIZED (
    SELECT run_id, node, bool_and(held_before < max_holders) OVER (ORDER BY position) AS is_free FROM (
        SELECT f.*, h.count + row_number() OVER (ORDER BY f.position) - 1 AS held_before
        FROM first f CROSS JOIN held h) AS t
),
locked AS MATERIALIZED (
    SELECT l.run_id, l.node FROM turns t JOIN ductor.eec_lease l ON l.run_id = t.run_id AND l.node = t.node
    WHERE t.is_free AND l.tenant = :tenant::text AND l.key = :key::text AND l.fence = 0
    ORDER BY l.run_id, l.node
    FOR UPDATE OF l
),
granted AS (
    UPDATE ductor.eec_lease l SET fence = nextval('ductor.eec_lease_fence'), since_us = ductor.eec_now_us()
    FROM locked k WHERE l.run_id = k.run_id AND l.node = k.node
    RETURNING l.run_id, l.node, l.generation, l.fence, l.position
),
told AS (
    INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, payload, by, at_us)
    SELECT g.run_id, 'lease:' || g.node || ':' || g.fence, 'lease', '', g.node,
        json_build_object('run_id', g.run_id, 'fence', g.fence, 'generation', g.generation), '', ductor.eec_now_us()
    FROM granted g
    ORDER BY g.run_id, g.node
    RETURNING run_id, message_id, position, at_us
),
more AS (
    INSERT INTO ductor.eec_lease_look (tenant, key)
    SELECT :tenant::text, :key::text FROM granted HAVING count(*) = :limit::integer
)
SELECT g.run_id::text, g.node, g.generation, g.fence, t.message_id, t.position, t.at_us
FROM granted g JOIN told t ON t.run_id = g.run_id AND t.message_id = 'lease:' || g.node || ':' || g.fence
ORDER BY g.position

-- name: lease_work
SELECT DISTINCT tenant, key FROM ductor.eec_lease_look
WHERE (tenant, key) > (:after_tenant::text, :after_key::text)
ORDER BY tenant, key LIMIT :limit::integer

-- name: leases
-- Both halves by their own index, between two places in it.
SELECT tenant, key, run_id::text, node, generation, max_holders, position, since_us, fence FROM (
    (SELECT * FROM ductor.eec_lease
     WHERE fence = 0 AND (:key::text IS NULL OR key = :key::text)
         AND (tenant, key, position) > (:after_tenant::text, :after_key::text, :after_position::bigint)
         AND (tenant, key) <= (:last_tenant::text, :last_key::text)
     ORDER BY tenant, key, position LIMIT :limit::integer)
    UNION ALL
    (SELECT * FROM ductor.eec_lease
     WHERE fence > 0 AND (:key::text IS NULL OR key = :key::text)
         AND (tenant, key, position) > (:after_tenant::text, :after_key::text, :after_position::bigint)
         AND (tenant, key) <= (:last_tenant::text, :last_key::text)
     ORDER BY tenant, key, position LIMIT :limit::integer)) AS found
ORDER BY tenant, key, position LIMIT :limit::integer

-- name: leases_of_run
SELECT tenant, key, run_id::text, node, generation, max_holders, position, since_us, fence FROM ductor.eec_lease
WHERE run_id = :run_id::uuid AND (:key::text IS NULL OR key = :key::text)
    AND (tenant, key, position) > (:after_tenant::text, :after_key::text, :after_position::bigint)
    AND (tenant, key) <= (:last_tenant::text, :last_key::text)
ORDER BY tenant, key, position LIMIT :limit::integer

-- name: lease_line
WITH waiting AS MATERIALIZED (
    SELECT w.tenant, w.key,
        (SELECT count(*) FROM ductor.eec_lease a
         WHERE a.tenant = w.tenant AND a.key = w.key AND a.fence = 0 AND a.position < w.position)::integer AS ahead,
        (SELECT count(*) FROM ductor.eec_lease h
         WHERE h.tenant = w.tenant AND h.key = w.key AND h.fence > 0)::integer AS held
    FROM ductor.eec_lease w WHERE w.run_id = :run_id::uuid AND w.node = :node::text AND w.fence = 0
)
SELECT w.ahead, w.held, h.tenant, h.key, h.run_id::text, h.node, h.generation, h.max_holders, h.position, h.since_us,
    h.fence
FROM waiting w LEFT JOIN LATERAL (
    SELECT * FROM ductor.eec_lease h WHERE h.tenant = w.tenant AND h.key = w.key AND h.fence > 0
    ORDER BY h.position LIMIT :limit::integer) AS h ON true
ORDER BY h.position
