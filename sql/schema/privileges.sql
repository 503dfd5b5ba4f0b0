-- Functions are executable by PUBLIC unless revoked. What a role may do comes from once.grant_scope alone.
REVOKE ALL ON ALL ROUTINES IN SCHEMA once FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA once FROM PUBLIC;
