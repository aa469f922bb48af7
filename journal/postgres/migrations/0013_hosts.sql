-- Hosts tell whether they drain, and which attempts they hold although they do not own their runs.

ALTER TABLE ductor.eec_host ADD COLUMN is_draining boolean NOT NULL DEFAULT false;
ALTER TABLE ductor.eec_host ADD COLUMN guests text[] NOT NULL DEFAULT '{}';
