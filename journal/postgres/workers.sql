-- Workers that live.

-- name: beat_worker
-- Several workers may find the same silent one: what another one removes is left to it.
WITH silent AS MATERIALIZED (
    SELECT worker_id FROM ductor.eec_worker
    WHERE heartbeat_at_us < ductor.eec_now_us() - :buried_after_us::bigint AND worker_id <> :worker_id::text
    ORDER BY worker_id FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM ductor.eec_worker w USING silent s WHERE w.worker_id = s.worker_id
)
INSERT INTO ductor.eec_worker (worker_id, queues, tasks, started_at_us, heartbeat_at_us)
VALUES (:worker_id::text, :queues::text[], :tasks::text[], ductor.eec_now_us(), ductor.eec_now_us())
ON CONFLICT (worker_id) DO UPDATE
SET queues = EXCLUDED.queues, tasks = EXCLUDED.tasks, heartbeat_at_us = EXCLUDED.heartbeat_at_us

-- name: remove_worker
DELETE FROM ductor.eec_worker WHERE worker_id = :worker_id::text

-- name: workers
SELECT row_to_json(w)::text FROM ductor.eec_worker w
WHERE w.heartbeat_at_us >= ductor.eec_now_us() - :alive_within_us::bigint ORDER BY w.worker_id LIMIT :limit::integer
