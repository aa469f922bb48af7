-- Rows that stand for all rows before them are found by how their text begins.

CREATE INDEX eec_workflow_transition_compacted ON ductor.eec_workflow_transition (run_id, version)
    WHERE starts_with(events::text, '[{"type":"run_compacted"');
