CREATE VIEW once.holders AS
SELECT w.scope, w.step, w.generation, w.epoch, l.pid, p.gid, coalesce(p.prepared, a.xact_start) AS since,
       coalesce(p.owner, a.usename) AS role, a.application_name, a.state, a.query
  FROM (SELECT s.name AS scope, 'drain' AS step, g.generation, NULL::bigint AS epoch, unnest(g.waits_for) AS virtualtransaction
          FROM once.generation AS g JOIN once.scope AS s ON s.scope_id = g.scope_id
         WHERE g.sealed_at IS NOT NULL AND g.drained_at IS NULL AND g.dropped_at IS NULL
        UNION ALL
        SELECT s.name, 'settle', NULL, e.epoch, unnest(e.waits_for)
          FROM once.epoch AS e JOIN once.scope AS s ON s.scope_id = e.scope_id
         WHERE e.switched_at IS NOT NULL AND e.settled_at IS NULL) AS w
 CROSS JOIN LATERAL (
       SELECT l.pid, max(l.transactionid::text) FILTER (WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock') AS xid
         FROM pg_locks AS l WHERE l.virtualtransaction = w.virtualtransaction GROUP BY l.pid) AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
  LEFT JOIN pg_prepared_xacts AS p ON l.pid IS NULL AND p.transaction::text = l.xid;

COMMENT ON VIEW once.holders IS
    'who holds maintenance back, as maintain last noted: sessions by pid, prepared transactions by gid. Since is NULL for sessions of other roles unless the reader has pg_read_all_stats';
COMMENT ON COLUMN once.holders.step IS 'drain: it may still write to a sealed generation; settle: it may be on its way to an earlier epoch''s functions';
