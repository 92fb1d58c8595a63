-- SPDX-FileCopyrightText: 2026 The Berthmaster authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The database, and the account that owns it: for `berthmaster db sync` and for operators. It may be
-- run again, also with another password.
CREATE DATABASE IF NOT EXISTS berthmaster CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS 'berthmaster'@'%' IDENTIFIED BY 'DB_PASS';
ALTER USER 'berthmaster'@'%' IDENTIFIED BY 'DB_PASS';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES
    ON berthmaster.* TO 'berthmaster'@'%';
