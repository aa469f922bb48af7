-- More parts of the statement of `commit.sql`: what the commit writes that continues a run as another one, and what moves
-- inputs that come to a run after it was continued. `won` names the commits that won; a commit without a journal row has no
-- commit id here, and depends on no row.

-- name: chains
-- Who asks for any run of the chain finds the latest.
, chains AS (
    INSERT INTO ductor.eec_run_chain (chain_run_id, latest_run_id)
    SELECT c.chain_run_id, c.latest_run_id
    FROM unnest(:chain_chain_run_id::uuid[], :chain_commit_id::uuid[], :chain_latest_run_id::uuid[])
        AS c (chain_run_id, commit_id, latest_run_id)
    WHERE c.commit_id IN (SELECT commit_id FROM won)
    ON CONFLICT (chain_run_id) DO UPDATE SET latest_run_id = EXCLUDED.latest_run_id
)

-- name: forwards
-- What waits goes to the successor; what is found later goes to the latest run of the chain. What this commit itself says of
-- inputs (`but`) is not said again: one statement can't change a row twice. Answers to what the run itself had begun, and
-- nobody else can take, stay behind; so does what another run of the chain has had under the same id meanwhile.
, forwarding AS MATERIALIZED (
    SELECT f.run_id, f.commit_id, f.version, coalesce(r.chain_run_id, r.run_id) AS chain_run_id,
        CASE WHEN f.commit_id IS NULL THEN coalesce(
            (SELECT c.latest_run_id FROM ductor.eec_run_chain c WHERE c.chain_run_id = coalesce(r.chain_run_id, r.run_id)),
            f.to_run_id) ELSE f.to_run_id END AS to_run_id
    FROM unnest(:forward_run_id::uuid[], :forward_commit_id::uuid[], :forward_version::bigint[], :forward_to_run_id::uuid[])
        AS f (run_id, commit_id, version, to_run_id)
    JOIN ductor.eec_workflow_run r ON r.run_id = f.run_id
    WHERE f.commit_id IS NULL OR f.commit_id IN (SELECT commit_id FROM won)
), messages_forwarded AS (
    UPDATE ductor.eec_workflow_signal m
    SET disposition = CASE WHEN m.kind IN ('digest', 'lease') OR EXISTS (
            SELECT FROM ductor.eec_chain_input i WHERE i.chain_run_id = f.chain_run_id AND i.kind = 'message'
                AND i.input_id = m.message_id AND i.run_id <> m.run_id) THEN 'undelivered' ELSE 'forwarded' END,
        applied_version = coalesce(m.applied_version, f.version)
    FROM forwarding f
    WHERE m.run_id = f.run_id AND m.disposition IN ('', 'buffered')
        AND (m.run_id, m.message_id) NOT IN (
            SELECT b.run_id, b.message_id FROM unnest(:but_message_run_id::uuid[], :but_message_message_id::text[])
                AS b (run_id, message_id))
    RETURNING m.run_id, m.message_id, m.kind, m.name, m.node, m.payload, m.payload_ref, m.by, m.at_us, m.position,
        m.disposition, f.chain_run_id, f.to_run_id
), messages_received AS (
    INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, payload, payload_ref, by, at_us)
    SELECT m.to_run_id, m.message_id, m.kind, m.name, m.node, m.payload, m.payload_ref, m.by, m.at_us
    FROM messages_forwarded m WHERE m.disposition = 'forwarded'
    ORDER BY m.to_run_id, m.position
    ON CONFLICT (run_id, message_id) DO NOTHING
), payloads_forwarded AS (
    INSERT INTO ductor.eec_payload (run_id, hash, body)
    SELECT DISTINCT ON (m.to_run_id, p.hash) m.to_run_id, p.hash, p.body
    FROM messages_forwarded m JOIN ductor.eec_payload p ON p.run_id = m.run_id AND p.hash = m.payload_ref ->> 'hash'
    WHERE m.payload_ref IS NOT NULL AND m.disposition = 'forwarded'
    ORDER BY m.to_run_id, p.hash
    ON CONFLICT (run_id, hash) DO NOTHING
), controls_forwarded AS (
    UPDATE ductor.eec_workflow_control c
    SET disposition = 'forwarded', applied_version = f.version, outcome = coalesce((
            SELECT i.run_id FROM ductor.eec_chain_input i WHERE i.chain_run_id = f.chain_run_id AND i.kind = 'control'
                AND i.input_id = c.request_id AND i.run_id <> c.run_id), f.to_run_id)::text
    FROM forwarding f
    WHERE c.run_id = f.run_id AND c.disposition = ''
        AND (c.run_id, c.request_id) NOT IN (
            SELECT b.run_id, b.request_id FROM unnest(:but_control_run_id::uuid[], :but_control_request_id::text[])
                AS b (run_id, request_id))
    RETURNING c.run_id, c.request_id, c.kind, c.arguments, c.by, c.requested_at_us, c.position, c.outcome::uuid AS has_it,
        f.chain_run_id, f.to_run_id
), controls_received AS (
    INSERT INTO ductor.eec_workflow_control (run_id, request_id, kind, arguments, by, requested_at_us)
    SELECT c.to_run_id, c.request_id, c.kind, c.arguments, c.by, c.requested_at_us FROM controls_forwarded c
    WHERE c.has_it = c.to_run_id
    ORDER BY c.to_run_id, c.position
    ON CONFLICT (run_id, request_id) DO NOTHING
), inputs_of_chain AS (
    INSERT INTO ductor.eec_chain_input (chain_run_id, kind, input_id, run_id)
    SELECT DISTINCT ON (i.chain_run_id, i.kind, i.input_id) i.chain_run_id, i.kind, i.input_id, i.run_id
    FROM (
        SELECT f.chain_run_id, 'message' AS kind, m.message_id AS input_id, f.run_id, 1 AS preference
        FROM forwarding f JOIN ductor.eec_workflow_signal m ON m.run_id = f.run_id AND f.commit_id IS NOT NULL
        UNION ALL
        SELECT f.chain_run_id, 'control', c.request_id, f.run_id, 1
        FROM forwarding f JOIN ductor.eec_workflow_control c ON c.run_id = f.run_id AND f.commit_id IS NOT NULL
        UNION ALL
        SELECT m.chain_run_id, 'message', m.message_id, m.to_run_id, 0 FROM messages_forwarded m
        WHERE m.disposition = 'forwarded'
        UNION ALL
        SELECT c.chain_run_id, 'control', c.request_id, c.has_it, 0 FROM controls_forwarded c
    ) AS i
    ORDER BY i.chain_run_id, i.kind, i.input_id, i.preference
    ON CONFLICT (chain_run_id, kind, input_id) DO UPDATE SET run_id = EXCLUDED.run_id
)

-- name: no_winners
WITH won AS (SELECT NULL::uuid AS commit_id WHERE false)

-- name: forwarded_count
SELECT count(*)::integer FROM forwarding
