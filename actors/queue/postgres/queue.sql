-- What is asked of the PostgreSQL tier. Its rules stand in the functions of the schema.

-- name: enqueue
SELECT ductor.eec_enqueue_tasks(:queue::text, :tokens::text[], :tenants::text[], :priorities::integer[], :bodies::bytea[])

-- name: lease
SELECT * FROM ductor.eec_lease_tasks(
    :queue::text, :wanted::integer, :visibility_us::bigint, :max_deliveries::integer, :max_dead::integer,
    :max_taken_back::integer, :lanes_looked_at::integer
)

-- name: renew
UPDATE ductor.eec_task_item i SET until_us = ductor.eec_now_us() + :visibility_us::bigint
FROM (
    SELECT l.queue, l.token FROM ductor.eec_task_item l
    JOIN unnest(:tokens::text[], :receipts::bigint[]) AS w (token, receipt) ON w.token = l.token
    WHERE l.queue = :queue::text AND l.state = 'leased' AND l.receipt = w.receipt AND l.until_us > ductor.eec_now_us()
    ORDER BY l.token FOR UPDATE OF l
) AS holding
WHERE i.queue = holding.queue AND i.token = holding.token
RETURNING i.token

-- name: adopt
-- Under the queue's lock: who leases counts what is leased. In order of token, as everywhere.
WITH locked AS MATERIALIZED (
    SELECT ductor.eec_lock_task_queue(:queue::text), ductor.eec_hold_task_lanes(:queue::text, :tenants::text[])
)
INSERT INTO ductor.eec_task_item AS i
    (queue, token, tenant, priority, enqueued_at_us, body, state, deliveries, receipt, until_us)
SELECT :queue::text, w.token, w.tenant, w.priority, ductor.eec_now_us(), w.body, 'leased', w.deliveries,
    nextval('ductor.eec_task_receipt'), ductor.eec_now_us() + :visibility_us::bigint
FROM locked CROSS JOIN unnest(:tokens::text[], :tenants::text[], :priorities::integer[], :deliveries::integer[],
    :bodies::bytea[]) AS w (token, tenant, priority, deliveries, body)
ORDER BY w.token
ON CONFLICT (queue, token) DO UPDATE
SET state = 'leased', deliveries = excluded.deliveries, receipt = excluded.receipt, until_us = excluded.until_us
WHERE i.state = 'queued'
RETURNING i.token, i.receipt

-- name: remove
SELECT * FROM ductor.eec_remove_tasks(:queue::text, :tokens::text[], :receipts::bigint[], :only_dead::boolean)

-- name: requeue
SELECT ductor.eec_requeue_tasks(:queue::text, :tokens::text[], :receipts::bigint[])

-- name: held
SELECT i.token, i.state FROM ductor.eec_task_item i WHERE i.queue = :queue::text AND i.token = ANY (:tokens::text[])

-- name: take_back
SELECT ductor.eec_take_back_tasks(
    :queue::text, :max_taken_back::integer, :max_deliveries::integer, :max_dead::integer
)

-- name: dead_letters
SELECT i.token, i.tenant, i.priority, i.deliveries, i.until_us, i.body FROM ductor.eec_task_item i
WHERE i.queue = :queue::text AND i.state = 'dead' ORDER BY i.until_us DESC, i.position DESC LIMIT :bound::integer

-- name: lanes
SELECT l.tenant,
    (SELECT count(*) FROM (SELECT FROM ductor.eec_task_item q
        WHERE q.queue = l.queue AND q.tenant = l.tenant AND q.state = 'queued' LIMIT :counted::integer) AS c) AS queued,
    (SELECT count(*) FROM ductor.eec_task_item f
        WHERE f.queue = l.queue AND f.tenant = l.tenant AND f.state = 'leased') AS in_flight,
    -- a lower priority may hold an older item: look at the first of each
    (WITH RECURSIVE firsts AS (
        (SELECT a.priority, a.enqueued_at_us FROM ductor.eec_task_item a
            WHERE a.queue = l.queue AND a.tenant = l.tenant AND a.state = 'queued'
            ORDER BY a.priority DESC, a.position LIMIT 1)
        UNION ALL
        SELECT lower.priority, lower.enqueued_at_us FROM firsts CROSS JOIN LATERAL (
            SELECT b.priority, b.enqueued_at_us FROM ductor.eec_task_item b
            WHERE b.queue = l.queue AND b.tenant = l.tenant AND b.state = 'queued' AND b.priority < firsts.priority
            ORDER BY b.priority DESC, b.position LIMIT 1
        ) AS lower
    ) SELECT greatest(0, ductor.eec_now_us() - min(enqueued_at_us)) FROM firsts) AS oldest_age_us
FROM ductor.eec_task_lane l
WHERE l.queue = :queue::text AND (
    EXISTS (SELECT FROM ductor.eec_task_item q WHERE q.queue = l.queue AND q.tenant = l.tenant AND q.state = 'queued')
    OR EXISTS (SELECT FROM ductor.eec_task_item f WHERE f.queue = l.queue AND f.tenant = l.tenant AND f.state = 'leased')
)
ORDER BY l.tenant LIMIT :bound::integer

-- name: sums
SELECT (SELECT count(*) FROM ductor.eec_task_item i WHERE i.queue = :queue::text AND i.state = 'leased') AS in_flight,
    (SELECT count(*) FROM ductor.eec_task_item i WHERE i.queue = :queue::text AND i.state = 'dead') AS dead,
    (SELECT count(*) FROM (SELECT FROM ductor.eec_task_item i
        WHERE i.queue = :queue::text AND i.state = 'queued' LIMIT :counted::integer) AS c) AS queued

-- name: set_lane_policy
INSERT INTO ductor.eec_task_lane AS l (queue, tenant, weight, max_in_flight, rate_per_s, burst)
VALUES (:queue::text, :tenant::text, :weight::integer, :max_in_flight::bigint, :rate_per_s::double precision,
    :burst::integer)
ON CONFLICT (queue, tenant) DO UPDATE
SET weight = excluded.weight, max_in_flight = excluded.max_in_flight, rate_per_s = excluded.rate_per_s,
    burst = excluded.burst, rate_tokens = NULL, blocked_until_us = NULL, is_capped = false,
    is_ready = l.is_ready OR l.blocked_until_us IS NOT NULL

-- name: set_queue_policy
INSERT INTO ductor.eec_task_queue AS q (queue, max_queued, max_in_flight)
VALUES (:queue::text, :max_queued::bigint, :max_in_flight::bigint)
ON CONFLICT (queue) DO UPDATE
SET max_queued = excluded.max_queued, max_in_flight = excluded.max_in_flight, counted_at_us = 0

-- name: alive
SELECT pg_is_in_recovery() AS is_standby
