-- Runs, newest first. Only the conditions that are asked for stand in the statement (`statements.py`): one plan that has to
-- serve every combination would read all runs for most of them.

-- name: heads
SELECT row_to_json(r)::text FROM ductor.eec_workflow_run r
WHERE {conditions}
ORDER BY r.run_id DESC
LIMIT :limit::integer

-- name: tenant
r.tenant = :tenant::text

-- name: definition
r.definition = :definition::text

-- name: statuses
r.status = ANY (:statuses::text[])

-- name: parent_run_ids
r.parent_run_id = ANY (:parent_run_ids::uuid[])

-- name: root_run_id
r.root_run_id = :root_run_id::uuid

-- name: not_continued
r.status <> 'continued'

-- name: before_run_id
r.run_id < :before_run_id::uuid
