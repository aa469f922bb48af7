-- Leases. A look at a key is a function: the lock has to be taken before the snapshot that it looks at, and one round trip
-- is enough. It locks the key by name first, then the waiters it grants in order of run and node, as every commit does.

-- name: grant_leases
SELECT run_id::text, node, generation, fence, message_id, message_position, at_us
FROM ductor.eec_grant_leases(:tenant::text, :key::text, :limit::integer)

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
