-- Runs that hosts leave alone, attempts that were lost with their hosts, and runs that do not get on.

-- name: set_run_aside
INSERT INTO ductor.eec_run_set_aside (run_id, tenant, reason, host_id, at_us)
SELECT run_id, tenant, :reason::text, :host_id::text, ductor.eec_now_us()
FROM ductor.eec_workflow_run WHERE run_id = :run_id::uuid
ON CONFLICT (run_id) DO UPDATE SET reason = ductor.eec_run_set_aside.reason
RETURNING run_id::text

-- name: release_run
-- What was lost before is forgotten: it would be set aside again at once.
WITH forgotten AS (DELETE FROM ductor.eec_attempt_loss WHERE run_id = :run_id::uuid)
DELETE FROM ductor.eec_run_set_aside WHERE run_id = :run_id::uuid RETURNING run_id::text

-- name: run_set_aside
SELECT s.run_id::text, s.tenant, r.definition, s.reason, s.host_id, s.at_us
FROM ductor.eec_run_set_aside s JOIN ductor.eec_workflow_run r ON r.run_id = s.run_id
WHERE s.run_id = :run_id::uuid

-- name: runs_set_aside
SELECT s.run_id::text, s.tenant, r.definition, s.reason, s.host_id, s.at_us
FROM ductor.eec_run_set_aside s JOIN ductor.eec_workflow_run r ON r.run_id = s.run_id
WHERE s.run_id > :after_run_id::uuid AND (:tenant::text IS NULL OR s.tenant = :tenant::text)
ORDER BY s.run_id LIMIT :limit::integer

-- name: attempt_losses
SELECT l.token, l.losses FROM unnest(:tokens::text[]) AS asked (token)
JOIN ductor.eec_attempt_loss l ON l.run_id = split_part(asked.token, '/', 1)::uuid AND l.token = asked.token
ORDER BY l.losses, l.last_at_us DESC

-- name: count_losses
-- In order of the key, so that two hosts that count the same attempts wait for each other and do not lock each other up.
INSERT INTO ductor.eec_attempt_loss AS l (run_id, token, losses, count_id, last_at_us)
SELECT split_part(lost.token, '/', 1)::uuid, lost.token, 1, :count_id::uuid, ductor.eec_now_us()
FROM (SELECT DISTINCT token FROM unnest(:tokens::text[]) AS given (token)) AS lost
ORDER BY 1, 2
ON CONFLICT (run_id, token) DO UPDATE SET
    losses = l.losses + CASE WHEN l.count_id = excluded.count_id THEN 0 ELSE 1 END,
    count_id = excluded.count_id, last_at_us = excluded.last_at_us
RETURNING token, losses

-- name: idle_runs
-- The last run that was looked at is in the answer: it tells where to go on.
WITH looked_at AS MATERIALIZED (
    SELECT page.run_id, newest.version, newest.at_us, lead(page.run_id) OVER (ORDER BY page.run_id) IS NULL AS is_last
    FROM (
        SELECT run_id FROM ductor.eec_workflow_run r
        WHERE status IN ('pending', 'running') AND status = 'running' AND run_id > :after_run_id::uuid
            AND (:partitions::integer[] IS NULL OR get_byte(uuid_send(run_id), 15) = ANY(:partitions::integer[]))
            AND NOT EXISTS (SELECT FROM ductor.eec_run_set_aside s WHERE s.run_id = r.run_id)
        ORDER BY run_id LIMIT :limit::integer) AS page
    CROSS JOIN LATERAL (SELECT version, at_us FROM ductor.eec_workflow_transition t WHERE t.run_id = page.run_id
        ORDER BY version DESC LIMIT 1) AS newest
)
SELECT run_id::text, version, at_us FROM looked_at WHERE at_us < :before_us::bigint OR is_last ORDER BY run_id
