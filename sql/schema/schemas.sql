-- The two schemas. "once" is the interface and the catalogue, "once_data" holds what belongs to one scope.
CREATE SCHEMA IF NOT EXISTS once;
CREATE SCHEMA IF NOT EXISTS once_data;

REVOKE ALL ON SCHEMA once, once_data FROM PUBLIC;

COMMENT ON SCHEMA once IS 'pgonce: functions to call, and the catalogue of scopes, generations and epochs';
COMMENT ON SCHEMA once_data IS 'pgonce: tables, fences and compiled functions of the scopes; nothing here is an interface';
