-- Hosts tell which attempts, held by other hosts, the runs in their hands want no more.

ALTER TABLE ductor.eec_host ADD COLUMN withdrawn text[] NOT NULL DEFAULT '{}';
