-- What waits for a paused run is passed over once, and not looked at again by every search for runs to wake.

ALTER TABLE ductor.eec_workflow_step_attempt ADD COLUMN is_held boolean NOT NULL DEFAULT false;
DROP INDEX ductor.eec_workflow_step_attempt_waiting;
CREATE INDEX eec_workflow_step_attempt_waiting ON ductor.eec_workflow_step_attempt (position)
    WHERE disposition = '' AND NOT is_held;
CREATE INDEX eec_workflow_step_attempt_held ON ductor.eec_workflow_step_attempt (position)
    WHERE disposition = '' AND is_held;

ALTER TABLE ductor.eec_workflow_signal ADD COLUMN is_held boolean NOT NULL DEFAULT false;
DROP INDEX ductor.eec_workflow_signal_waiting;
CREATE INDEX eec_workflow_signal_waiting ON ductor.eec_workflow_signal (position) WHERE disposition = '' AND NOT is_held;
CREATE INDEX eec_workflow_signal_held ON ductor.eec_workflow_signal (position) WHERE disposition = '' AND is_held;
