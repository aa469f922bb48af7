-- What became of the undos of a run that has ended: empty where it undid nothing, true, or partial.

ALTER TABLE ductor.eec_workflow_run ADD COLUMN compensated text NOT NULL DEFAULT '';
