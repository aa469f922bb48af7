-- Child runs: which step has started them, and the way from a run to those that it has started.

ALTER TABLE ductor.eec_workflow_run ADD COLUMN parent_node text NOT NULL DEFAULT '';
CREATE INDEX eec_workflow_run_of_parent ON ductor.eec_workflow_run (parent_run_id, run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX eec_workflow_run_of_root ON ductor.eec_workflow_run (root_run_id, run_id) WHERE root_run_id IS NOT NULL;
