-- SPDX-FileCopyrightText: 2026 The Berthmaster authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The accounts of the daemons, with what they need and no more. It may be run again, also with other
-- passwords, and is to be run after each `berthmaster db sync`: a table has to be there before anybody
-- can be let to it.
CREATE USER IF NOT EXISTS 'berthmaster_scheduler'@'%' IDENTIFIED BY 'SCHEDULER_DB_PASS';
ALTER USER 'berthmaster_scheduler'@'%' IDENTIFIED BY 'SCHEDULER_DB_PASS';
GRANT SELECT ON berthmaster.* TO 'berthmaster_scheduler'@'%';
GRANT UPDATE ON berthmaster.compute_nodes TO 'berthmaster_scheduler'@'%';
GRANT INSERT, UPDATE ON berthmaster.services TO 'berthmaster_scheduler'@'%';
GRANT INSERT, UPDATE ON berthmaster.revisions TO 'berthmaster_scheduler'@'%';
GRANT INSERT, UPDATE, DELETE ON berthmaster.allocations TO 'berthmaster_scheduler'@'%';
GRANT INSERT, DELETE ON berthmaster.standbys TO 'berthmaster_scheduler'@'%';
GRANT INSERT, DELETE ON berthmaster.idempotency_keys TO 'berthmaster_scheduler'@'%';
GRANT INSERT, UPDATE, DELETE ON berthmaster.claimed_groups TO 'berthmaster_scheduler'@'%';
GRANT DELETE ON berthmaster.audit_log TO 'berthmaster_scheduler'@'%';
GRANT INSERT, DELETE ON berthmaster.decisions TO 'berthmaster_scheduler'@'%';
GRANT INSERT, DELETE ON berthmaster.decision_instances TO 'berthmaster_scheduler'@'%';
GRANT INSERT, DELETE ON berthmaster.decision_inputs TO 'berthmaster_scheduler'@'%';
GRANT INSERT, UPDATE, DELETE ON berthmaster.shadow_reports TO 'berthmaster_scheduler'@'%';
GRANT INSERT, UPDATE, DELETE ON berthmaster.leases TO 'berthmaster_scheduler'@'%';

CREATE USER IF NOT EXISTS 'berthmaster_agent'@'%' IDENTIFIED BY 'AGENT_DB_PASS';
ALTER USER 'berthmaster_agent'@'%' IDENTIFIED BY 'AGENT_DB_PASS';
GRANT SELECT ON berthmaster.* TO 'berthmaster_agent'@'%';
GRANT INSERT, UPDATE ON berthmaster.compute_nodes TO 'berthmaster_agent'@'%';
GRANT INSERT, UPDATE ON berthmaster.services TO 'berthmaster_agent'@'%';
GRANT INSERT, UPDATE ON berthmaster.revisions TO 'berthmaster_agent'@'%';
GRANT INSERT, UPDATE, DELETE ON berthmaster.instances TO 'berthmaster_agent'@'%';
GRANT INSERT, UPDATE, DELETE ON berthmaster.allocations TO 'berthmaster_agent'@'%';
GRANT INSERT, DELETE ON berthmaster.standbys TO 'berthmaster_agent'@'%';
GRANT INSERT, DELETE ON berthmaster.idempotency_keys TO 'berthmaster_agent'@'%';
GRANT DELETE ON berthmaster.aggregate_hosts TO 'berthmaster_agent'@'%';
GRANT INSERT ON berthmaster.audit_log TO 'berthmaster_agent'@'%';
GRANT INSERT, UPDATE, DELETE ON berthmaster.leases TO 'berthmaster_agent'@'%';
