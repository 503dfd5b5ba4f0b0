/*
 * The protocol of claim and rotation, for one key. README.md says what is left out and why that is sound.
 *
 * A comment "file.sql: text" names a file under sql/schema/functions and a text in it that the step stands for. A test
 * checks that the texts still stand there.
 *
 * One atomic block is one step. Between two of them everything can happen, the crash of this process included.
 */

/* The world: how large it is and which safeguards are off. Set from the environment, so that one verifier serves all
 * configurations; constant afterwards. main.go lists them. */
c_decl {
    static int parameter(const char *name) {
        const char *value = getenv(name);
        return value ? atoi(value) : 0;
    }
}

#define MAXGENS 3
#define MAXEPOCHS 5
#define TRANSACTIONS 6      /* 0 to 2 claimants, 3 the look-up, 4 and 5 maintainers */

byte gens;                  /* generations there can be: rotations + 1 */
byte unlinks;               /* how many of them, from the oldest, can be retired */
byte maintainers;
byte claimants;
bool drops;                 /* epochs are settled and unlinked leaves dropped */
bool looks;                 /* there is a look-up */
byte retries;               /* times that a committed transition is sent again: by then its claim id is stale */
byte how[3];                /* how each claimant claims, a mask to choose from: */
#define RC 1                /*   READ COMMITTED, the row is written at once */
#define DEFER 2             /*   READ COMMITTED, the row is written by complete */
#define SI 4                /*   one snapshot a transaction: REPEATABLE READ and SERIALIZABLE */
byte then[3];               /* how it goes on, a mask to choose from: */
#define ATONCE 1            /*   the claim writes the row finished (p_done) */
#define LEASED 2            /*   commits in progress; a later transaction completes or releases */
#define SAME 4              /*   completes or releases in the transaction of the claim */

int off;                    /* the safeguards that are off, a mask; main.go tells what each number stands for */
#define OFF(bit) (off & (1 << bit))
#define NO_LOCK 0
#define NO_FENCE 1
#define FENCE_GOES_BACK 2
#define CARRY_NO_FENCE 3
#define NO_CLAIM_ID 4
#define FENCE_BEFORE_LEAF 5
#define NO_TOMBSTONES 6
#define NO_DRAIN 7
#define RETIRE_UNDRAINED 8
#define NO_SETTLE 9
#define SWITCH_FIRST 10
#define DEFER_FENCE_FIRST 11
#define DEFER_NO_FENCE 12
#define SETTLE_NO_FENCE 13
#define SETTLE_NO_LOCK 14
#define CARRY_NO_LOCK 15
#define CARRY_NO_SCOPE_LOCK 16
#define NO_SCOPE_LOCK 17
#define DRAINED_FRESH 18
#define LOOKUP_ONCE 19
#define WAIT_NO_FENCE 20

/* With a safeguard off only what users would notice counts. With all on, the reasons why it holds are checked too. */
#define SURE(x) assert(off || (x))

/* The state of the key's row in a leaf. Above TOMB the row counts; from PARK on a claim is answered without waiting. */
#define NONE 0
#define TOMB 1
#define IP 2                /* in progress */
#define PARK 3
#define DONE 4              /* finished before its leaf was drained: past its window when the leaf is */
#define LATE 5              /* finished later: must outlive its leaf */
#define OUTLIVES(s) (s == IP || s == PARK || s == LATE)
#define UNFINISHED(s) (s == IP || s == PARK)

#define BIT(x) (1 << (x))
#define HAS(mask, x) (((mask) >> (x)) & 1)
#define KNOWN(e) (sealed[e] | BIT(open[e]))

/* The sequence. Not under MVCC: read fresh, not undone by a rollback. */
byte fence = 1;

/* once.epoch and once.generation. A maintenance step writes them once, so only their committed state is kept. */
byte newest = 1;            /* the newest epoch that is published */
byte switched = 1;          /* the newest epoch whose switch is recorded */
byte open[MAXEPOCHS + 1];
byte sealed[MAXEPOCHS + 1]; /* masks of leaves, as are: */
byte drained, unlinked, dropped, noted;
byte writers[MAXGENS];      /* the noted transactions that are still there, a mask */
byte settling, settled;     /* the newest epoch whose older transactions have been noted; have ended */
byte older;                 /* those that are still there, a mask */

/* A leaf's committed row, and the change that a running transaction has made to it. A key has one entry in a leaf's unique
 * index, so one transaction at a time changes it, and others wait for its end. */
byte row[MAXGENS], id[MAXGENS];
byte pend[MAXGENS], pendrow[MAXGENS], pendid[MAXGENS]; /* pend: the transaction + 1 */

byte keylock;               /* the advisory lock: the transaction + 1 */
byte scopelock;             /* the scope's row lock: the maintainer + 1 */
byte leaflock[TRANSACTIONS]; /* ROW EXCLUSIVE: masks of leaves */
byte running;               /* a mask of transactions, maintenance aside */

/* The claim whose effect is committed, not released, and inside its window (0: none), and whether it is completed. Read by
 * assertions only. */
byte winner;
bool completed;

byte i, n;                  /* zero between steps */

/* Who asks in the current epoch finds the claim that has the effect, and no other. */
inline check() {
    d_step {
        i = 0; n = 0;
        do
        :: i < MAXGENS ->
            if
            :: HAS(KNOWN(fence), i) && row[i] > TOMB ->
                SURE(id[i] == winner);
                if
                :: id[i] == winner -> n++; assert(!completed || row[i] >= DONE) /* a completion is not lost */
                :: else
                fi
            :: else
            fi;
            i++
        :: else -> break
        od;
        assert(!winner || n > 0); /* what is committed is not lost */
        SURE(n <= 1);
        i = 0; n = 0
    }
}

/* The fence moves. A finished row in a leaf that drops out of sight may be forgotten: its window is over. */
inline setval(to) {
    d_step {
        i = 0;
        do
        :: i < MAXGENS ->
            if
            :: winner && row[i] == DONE && id[i] == winner && HAS(KNOWN(fence), i) && !HAS(KNOWN(to), i) -> winner = 0; completed = 0
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        fence = to
    }
    check()
}

/* The transaction ends: its changes are there for all, or gone; its locks are free; nobody waits for it any more. */
inline over(commits) {
    d_step {
        i = 0;
        do
        :: i < MAXGENS ->
            if
            :: pend[i] == me + 1 ->
                if
                :: commits -> row[i] = pendrow[i]; id[i] = pendid[i]
                :: else
                fi;
                pend[i] = 0; pendrow[i] = 0; pendid[i] = 0
            :: else
            fi;
            writers[i] = writers[i] & ~BIT(me);
            i++
        :: else -> break
        od;
        i = 0;
        leaflock[me] = 0;
        running = running & ~BIT(me);
        older = older & ~BIT(me);
        if
        :: keylock == me + 1 -> keylock = 0
        :: else
        fi
    }
}

inline write(leaf, state, claim) {
    SURE(keylock == me + 1);
    pend[leaf] = me + 1; pendrow[leaf] = state; pendid[leaf] = claim
}

/* What a statement of this transaction sees in a leaf: its own change, else its snapshot, kept or of this moment. */
#define SEE(leaf) (pend[leaf] == me + 1 -> pendrow[leaf] : (si -> oldrow[leaf] : row[leaf]))
#define SEEID(leaf) (pend[leaf] == me + 1 -> pendid[leaf] : (si -> oldid[leaf] : id[leaf]))
/* The committed row is another than the kept snapshot's. Every change of a row changes its state or its id. */
#define INVISIBLE(leaf) (si && pend[leaf] != me + 1 && (row[leaf] != oldrow[leaf] || id[leaf] != oldid[leaf]))
/* Nobody else is changing the entry: the index does not make wait. */
#define FREE(leaf) (pend[leaf] == 0 || pend[leaf] == me + 1)
/* What the unique index finds. */
#define ENTRY(leaf) (pend[leaf] == me + 1 -> pendrow[leaf] : row[leaf])

/* _fill.sql: state <> ''tombstone'' */
inline look(mask, result) {
    d_step {
        result = NONE; i = 0;
        do
        :: i < MAXGENS ->
            if
            :: HAS(mask, i) ->
                assert(!HAS(dropped, i)); /* 42P01 */
                if
                :: SEE(i) > TOMB -> result = SEE(i)
                :: else
                fi
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

inline lockleaf(leaf) {
    assert(!HAS(dropped, leaf)); /* 42P01 */
    leaflock[me] = leaflock[me] | BIT(leaf)
}

inline begin() {
    d_step {
        running = running | BIT(me);
        if
        :: si ->
            i = 0;
            do
            :: i < MAXGENS -> oldrow[i] = row[i]; oldid[i] = id[i]; i++
            :: else -> break
            od;
            i = 0;
            olddrained = drained
        :: else
        fi
    }
}

/* Nothing of an ended transaction makes two states different. */
inline forget() {
    d_step {
        i = 0;
        do
        :: i < MAXGENS -> oldrow[i] = 0; oldid[i] = 0; i++
        :: else -> break
        od;
        i = 0; olddrained = 0; si = 0; defer = 0; fresh = 0; e = 0; f = 0; g = 0; todo = 0
    }
}

/* Rolled back, or ended with nothing of its own: tombstones are all that a refused claim may leave, and they say nothing. */
inline quit() {
    over(false);
    forget();
    deferred = 0; leased = 0; want = 0; left = 0;
    goto done
}

/* One claim, with an id that is never used again (me + 1), and what becomes of it. */
proctype Claimant(byte me) {
    byte e;                 /* the epoch whose function is called */
    bool si, defer;
    byte oldrow[MAXGENS], oldid[MAXGENS], olddrained; /* the transaction's snapshot */
    bool fresh;             /* the claim was made in this transaction */
    bool deferred, leased;
    byte want;              /* the transition: DONE, or NONE for a release */
    byte left = retries;
    byte f, g, todo;

    /* A transaction begins, and its snapshot is taken, any time before it claims. */
    atomic {
        if
        :: how[me] & RC -> skip
        :: how[me] & DEFER -> defer = 1
        :: how[me] & SI -> si = 1
        fi;
        begin();
        if
        :: !si -> e = fence
        :: else
        fi
    }
    /* _route.sql: v_epoch := pg_sequence_last_value(v_fence); */
    if
    :: si -> e = fence
    :: else
    fi;

again:
    atomic {
        if
        :: OFF(DEFER_FENCE_FIRST) && fence != e -> e = fence; goto again
        :: else
        fi
    }
    /* _compile_claim.sql: IF NOT pg_try_advisory_xact_lock(v_lock) THEN */
    atomic {
        if
        :: OFF(NO_LOCK) -> goto locked
        :: !OFF(NO_LOCK) && (keylock == 0 || keylock == me + 1) -> keylock = me + 1; goto locked
        :: !OFF(NO_LOCK) && keylock != 0 && keylock != me + 1 -> skip
        :: true -> quit()
        fi
    }
    /* _compile_claim.sql: IF pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN */
    atomic {
        if
        :: fence != e -> e = fence; goto again
        :: else
        fi
    }
    /* _compile_claim.sql: IF v_row.state IN ('done', 'failed', 'parked') */
    atomic {
        look(KNOWN(e), f);
        if
        :: f >= PARK -> quit()
        :: else -> f = 0
        fi
    }
    /* _compile_claim.sql: IF NOT once._wait_for_lock(v_lock, p_wait) THEN */
    atomic {
        if
        :: keylock == 0 -> keylock = me + 1
        :: true -> quit()
        fi
    }

locked:
    /* _compile_claim.sql: IF v_lock IS NULL OR pg_sequence_last_value({fence}) IS DISTINCT FROM {epoch} THEN */
    atomic {
        if
        :: fence != e && !(OFF(DEFER_FENCE_FIRST) && defer) && !OFF(WAIT_NO_FENCE) -> e = fence; goto again
        :: else
        fi
    }
    if
    :: defer ->
        /* _compile_claim.sql: IF p_defer AND NOT p_done THEN */
        atomic {
            look(KNOWN(e), f);
            if
            :: f != NONE -> quit()
            :: else -> fresh = 1; deferred = 1; want = DONE; goto finish
            fi
        }
    :: si && !OFF(NO_TOMBSTONES) ->
        /* _compile_claim.sql: WHERE g.scope_id = %1$s AND g.generation = %2$s AND g.drained_at IS NOT NULL) THEN */
        /* _compile_claim.sql: SELECT now(), v_id, %2$s, 0, 'tombstone', p_subject, p_key */
        /* One step for all leaves: what the inserts meet is frozen by the key's lock. */
        atomic {
            todo = sealed[e] & ~(OFF(DRAINED_FRESH) -> drained : olddrained);
            g = 0;
            do
            :: g < MAXGENS && HAS(todo, g) ->
                lockleaf(g);
                FREE(g);
                if
                :: fence == e && ENTRY(g) == NONE -> write(g, TOMB, me + 1)
                :: fence == e && ENTRY(g) != NONE && INVISIBLE(g) -> quit() /* 40001 */
                :: else
                fi;
                g++
            :: g < MAXGENS && !HAS(todo, g) -> g++
            :: else -> break
            od;
            todo = 0; g = 0
        }
    :: else
    fi;

    /* _compile_claim.sql: INSERT INTO {open} (claimed_at, finished_at, lease_until, claim_id, */
    atomic {
        if
        :: OFF(FENCE_BEFORE_LEAF) && fence != e -> goto missed
        :: !OFF(FENCE_BEFORE_LEAF) -> lockleaf(open[e])
        :: else
        fi;
        look(sealed[e], f)
    }
    /* _compile_claim.sql: WHERE pg_sequence_last_value({fence}) = {epoch} AND {unknown} */
    atomic {
        if
        :: f == NONE && OFF(FENCE_BEFORE_LEAF) -> lockleaf(open[e])
        :: f == NONE && !OFF(FENCE_BEFORE_LEAF) && (fence == e || OFF(NO_FENCE)) -> skip
        :: else -> f = 0; goto missed
        fi
    }
    /* _compile_claim.sql: ON CONFLICT DO NOTHING; */
    atomic {
        if
        :: FREE(open[e]) ->
            if
            :: ENTRY(open[e]) != NONE && INVISIBLE(open[e]) -> quit() /* 40001 */
            :: ENTRY(open[e]) != NONE && !INVISIBLE(open[e]) -> goto missed
            :: ENTRY(open[e]) == NONE ->
                fresh = 1;
                if
                :: then[me] & ATONCE -> write(open[e], DONE, me + 1); want = DONE; goto commit
                :: then[me] & LEASED -> write(open[e], IP, me + 1); leased = 1; goto commit
                :: then[me] & SAME -> write(open[e], IP, me + 1); want = DONE; goto finish
                :: then[me] & SAME -> write(open[e], IP, me + 1); want = NONE; goto finish
                fi
            fi
        :: true -> quit()
        fi
    }

missed:
    /* _compile_claim.sql: -- A second statement, because the first could not see what beat it. */
    atomic {
        look(KNOWN(e), f);
        if
        :: f != NONE -> quit()
        :: else -> SURE(fence != e); e = fence; goto again /* so there is no end to it only if there is none to rotations */
        fi
    }

later:
    /* Leased work ends in a transaction of its own, with a snapshot of its own. */
    atomic {
        si = (how[me] == SI);
        begin();
        e = fence;
        if
        :: want = DONE
        :: want = NONE
        fi;
        goto finish
    }

finish:
    if
    :: deferred ->
        /* _compile_settle.sql: IF strpos(v_deferred, v_mark) > 0 AND p_attempt = 1 THEN */
        atomic {
            if
            :: e = fence
            :: quit()
            fi
        }
        /* _compile_settle.sql: INSERT INTO {open} (claimed_at, finished_at, omitted_bytes, claim_id, generation, attempt, state, */
        atomic { lockleaf(open[e]) }
        /* _compile_settle.sql: WHERE pg_sequence_last_value({fence}) = {epoch}; */
        atomic {
            if
            :: fence != e && !OFF(DEFER_NO_FENCE) -> goto finish
            :: else
            fi
        }
        atomic {
            FREE(open[e]) ->
            SURE(ENTRY(open[e]) == NONE);
            if
            :: ENTRY(open[e]) == NONE -> write(open[e], DONE, me + 1); deferred = 0; goto commit
            :: else -> quit() /* 23505 */
            fi
        }
    :: else
    fi;
    /* _compile_settle.sql: PERFORM pg_advisory_xact_lock(v_lock); */
    atomic {
        if
        :: OFF(NO_LOCK) || OFF(SETTLE_NO_LOCK) -> skip
        :: !OFF(NO_LOCK) && !OFF(SETTLE_NO_LOCK) && (keylock == 0 || keylock == me + 1) -> keylock = me + 1
        :: quit()
        fi
    }
    /* _compile_settle.sql: WHERE subject = p_subject AND key = p_key AND claim_id = p_claim_id AND attempt = p_attempt */
    /* _compile_settle.sql: FOREACH v_leaf IN ARRAY p_generation || p_sealed LOOP */
    /* Where the claim's row is not, nothing happens but the leaf's lock: one step leads to the leaf where it is. */
    atomic {
        g = open[e]; todo = sealed[e]; f = 0;
        do
        :: true ->
            lockleaf(g);
            if
            :: UNFINISHED(SEE(g)) && (SEEID(g) == me + 1 || OFF(NO_CLAIM_ID)) -> f = 1; break
            :: else
            fi;
            if
            :: todo == 0 -> break
            :: else ->
                g = MAXGENS - 1;
                do
                :: !HAS(todo, g) -> g--
                :: else -> break
                od;
                todo = todo & ~BIT(g)
            fi
        od;
        todo = 0
    }
    /* _compile_settle.sql: AND state IN ('in_progress', 'parked') AND pg_sequence_last_value({fence}) = {epoch}; */
    atomic {
        if
        :: f && FREE(g) ->
            f = 0;
            if
            :: fence != e && !OFF(SETTLE_NO_FENCE) -> g = 0; e = fence; goto finish
            :: else
            fi;
            if
            :: INVISIBLE(g) -> quit() /* 40001 */
            :: !INVISIBLE(g) && !UNFINISHED(ENTRY(g)) -> quit() /* changed since it was found: not while the key is locked */
            :: else
            fi;
            assert((pend[g] == me + 1 -> pendid[g] : id[g]) == me + 1); /* a stale claim changes nothing */
            if
            :: want == DONE -> write(g, (HAS(drained, g) -> LATE : DONE), me + 1)
            :: want == NONE -> write(g, NONE, 0); fresh = 0
            fi;
            g = 0;
            goto commit
        :: !f ->
            g = 0;
            /* _compile_settle.sql: RETURN CASE WHEN pg_sequence_last_value({fence}) = {epoch} THEN false END; */
            if
            :: fence != e -> e = fence; goto finish
            :: else
            fi;
            /* _raise_lost.sql: IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN */
            if
            :: si -> quit() /* 40001 */
            :: else
            fi;
            /* ON007: then it does not have the key, unfinished. */
            look(KNOWN(fence), f);
            assert(!(winner == me + 1 && UNFINISHED(f)));
            quit()
        :: quit()
        fi
    }

commit:
    atomic {
        if
        :: true ->
            if
            :: fresh -> assert(!winner); winner = me + 1; completed = (want == DONE) /* one winner */
            :: !fresh && winner == me + 1 && want == DONE -> completed = 1
            :: !fresh && winner == me + 1 && want == NONE -> winner = 0; completed = 0
            :: else
            fi;
            over(true);
            check();
            forget();
            want = 0;
            if
            :: leased -> leased = 0; goto later
            :: !leased && then[me] == LEASED && left > 0 -> left--; goto later
            :: else -> left = 0; goto done
            fi
        :: quit()
        fi
    }
done:
    skip
}

/* The step was taken, or given up: then the catalogue is as before, but for the fence. */
inline leave() {
    e = 0; g = 0; f = 0;
    if
    :: scopelock == me + 1 -> scopelock = 0
    :: else
    fi;
    goto end
}

inline rollback() {
    over(false);
    leave()
}

/* No other step is possible before the newest epoch is switched to. (_maintain_step.sql: {repair,switch,rotate,settle,drain,retire,drop,forget}) */
#define MAY ((scopelock == 0 || OFF(NO_SCOPE_LOCK)) && newest == switched)

/* once.maintain. Each step reads anew, under the scope's row lock, what is committed: whoever takes the next one goes on where
 * a crash has left things. Time is whatever makes a step possible. */
proctype Maintainer(byte me) {
    byte e, g, f;
    bool si;                /* always READ COMMITTED */
    byte oldrow[MAXGENS], oldid[MAXGENS];

end:
    do
    /* _maintain_step.sql: FOR UPDATE SKIP LOCKED; */
    /* _switch_epoch.sql: SELECT * INTO STRICT v_new FROM once.epoch AS e WHERE e.scope_id = p_scope_id ORDER BY e.epoch DESC LIMIT 1; */
    :: atomic {
            (scopelock == 0 || OFF(NO_SCOPE_LOCK)) && newest != switched && e == 0 ->
            if
            :: !OFF(NO_SCOPE_LOCK) -> scopelock = me + 1
            :: else
            fi;
            e = newest
        }
        if
        :: OFF(NO_SCOPE_LOCK) ->
            /* The fence was looked at without the lock, and others have moved on since. */
            atomic {
                if
                :: fence < e -> skip
                :: else -> leave()
                fi
            }
        :: else
        fi;
        /* _switch_epoch.sql: PERFORM setval(v_fence, v_new.epoch); */
        atomic {
            if
            :: fence != e -> setval(e)
            :: fence == e
            :: rollback()
            fi
        }
        /* _switch_epoch.sql: UPDATE once.epoch AS e SET switched_at = p_now */
        atomic {
            if
            :: e > switched ->
                switched = e;
                unlinked = BIT(open[e]) - 1 - sealed[e];
                leave()
            :: e <= switched -> leave()
            :: rollback()
            fi
        }

    /* _step_rotate.sql: PERFORM once._publish_epoch(p_scope.scope_id, v_next, v_epoch.generation || v_epoch.sealed); */
    :: atomic {
            MAY && open[newest] + 1 < gens ->
            open[newest + 1] = open[newest] + 1;
            sealed[newest + 1] = KNOWN(newest);
            newest++
        }

    /* _step_drain.sql: v_waits := once._writers(once._leaf(p_scope.name, v_generation.generation), v_generation.waits_for); */
    /* _writers.sql: AND l.mode = 'RowExclusiveLock' AND l.granted */
    :: atomic {
            MAY && (sealed[switched] & ~noted) ->
            d_step {
                do
                :: !HAS(sealed[switched] & ~noted, g) -> g++
                :: else -> break
                od;
                noted = noted | BIT(g);
                i = 0;
                do
                :: i < TRANSACTIONS ->
                    if
                    :: HAS(leaflock[i], g) && !OFF(NO_DRAIN) -> writers[g] = writers[g] | BIT(i)
                    :: else
                    fi;
                    i++
                :: else -> break
                od;
                i = 0; g = 0
            }
        }
    /* _step_drain.sql: drained_at = CASE WHEN v_waits = '{}' THEN p_now END */
    :: atomic {
            MAY && (noted & ~drained) ->
            d_step {
                do
                :: g < MAXGENS ->
                    if
                    :: HAS(noted, g) && writers[g] == 0 -> drained = drained | BIT(g)
                    :: else
                    fi;
                    g++
                :: else -> break
                od;
                g = 0
            }
        }

    /* _step_retire.sql: AND g.drained_at + p_scope.dedup_window <= p_now */
    :: atomic {
            MAY && sealed[newest] ->
            do
            :: !HAS(sealed[newest], g) -> g++
            :: else -> break
            od;
            e = fence;
            if
            :: g >= unlinks || (!HAS(drained, g) && !OFF(RETIRE_UNDRAINED)) -> leave()
            :: else
            fi;
            if
            :: !OUTLIVES(row[g]) ->
                /* _step_retire.sql: PERFORM once._publish_epoch(p_scope.scope_id, v_epoch.generation, array_remove(v_epoch.sealed, v_generation.generation)); */
                open[newest + 1] = open[newest];
                sealed[newest + 1] = sealed[newest] & ~BIT(g);
                newest++;
                leave()
            :: else
            fi;
            /* _carry_over.sql: IF NOT pg_try_advisory_xact_lock(hashtextextended(v_row.key, hashtextextended(v_row.subject, v_seed))) THEN */
            if
            :: keylock != 0 && !OFF(CARRY_NO_LOCK) -> leave()
            :: keylock == 0 && !OFF(CARRY_NO_LOCK) -> keylock = me + 1
            :: else
            fi;
            if
            :: !OFF(CARRY_NO_SCOPE_LOCK) -> scopelock = me + 1
            :: else
            fi
        }
        /* _carry_over.sql: -- Read again, under the lock. */
        atomic { lockleaf(open[e]); f = row[g] }
        /* _carry_over.sql: AND pg_sequence_last_value(%L::regclass) = %s */
        atomic {
            if
            :: OUTLIVES(f) && (fence == e || OFF(CARRY_NO_FENCE)) -> skip
            :: else -> rollback()
            fi
        }
        /* _carry_over.sql: SET state = ''tombstone'' */
        /* Insert and update in one step: between them only the index could tell, and the key's lock keeps others from it. */
        atomic {
            if
            :: FREE(open[e]) && FREE(g) ->
                if
                :: row[open[e]] == NONE ->
                    write(open[e], (f == IP -> PARK : f), id[g]);
                    lockleaf(g);
                    write(g, TOMB, id[g])
                :: else -> rollback()
                fi
            :: rollback()
            fi
        }
        atomic {
            if
            :: true -> over(true); check(); leave()
            :: rollback()
            fi
        }

    /* _step_settle_epoch.sql: v_waits := once._transactions(v_epoch.waits_for); */
    :: atomic {
            MAY && drops && unlinked && settling < switched ->
            settling = switched;
            older = (OFF(NO_SETTLE) -> 0 : running)
        }
    /* _step_settle_epoch.sql: settled_at = CASE WHEN v_waits = '{}' THEN clock_timestamp() END */
    :: atomic { MAY && settling > settled && older == 0 -> settled = settling }

    /* _step_drop.sql: EXECUTE format('DROP TABLE %s', v_leaf); */
    :: atomic {
            MAY && settled && (unlinked & ~KNOWN(settled) & ~dropped) ->
            d_step {
                do
                :: !HAS(unlinked & ~KNOWN(settled) & ~dropped, g) -> g++
                :: else -> break
                od;
                /* _step_drop.sql: EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_leaf); */
                i = 0; f = 0;
                do
                :: i < TRANSACTIONS -> f = f | HAS(leaflock[i], g); i++
                :: else -> break
                od;
                i = 0;
                if
                :: !f ->
                    /* _step_drop.sql: -- Looked at again under the lock, since somebody may have changed a row by hand. */
                    SURE(!OUTLIVES(row[g]));
                    dropped = dropped | BIT(g); row[g] = NONE; id[g] = 0
                :: else
                fi;
                f = 0; g = 0
            }
        }

    /* Two safeguards that are gone: an epoch is switched to before it is published, and a switch that is tried again by one
     * who does not look at the fence. */
    :: atomic { OFF(SWITCH_FIRST) && MAY && open[newest] + 1 < gens -> fence = newest + 1 }
        atomic { open[newest + 1] = open[newest] + 1; sealed[newest + 1] = KNOWN(newest); newest++; switched = newest; leave() }
    :: atomic { OFF(FENCE_GOES_BACK) && MAY && fence > 1 -> setval(fence - 1) }
        atomic { fence = newest }
    od
}

/* once.lookup at READ COMMITTED: what has effect from its beginning to its end is found. */
proctype Lookup(byte me) {
    byte e, f, before;
    bool si;
    byte oldrow[MAXGENS];

    atomic { running = running | BIT(me); before = winner; e = fence }
again:
    /* _compile_lookup.sql: IF pg_sequence_last_value({fence}) <> {epoch} THEN */
    atomic {
        if
        :: fence != e -> e = fence; goto again
        :: else
        fi
    }
    /* _compile_lookup.sql: RETURN QUERY */
    atomic { look(KNOWN(e), f); before = (winner == before -> winner : 0) }
    /* _compile_lookup.sql: IF NOT FOUND AND pg_sequence_last_value({fence}) <> {epoch} THEN */
    atomic {
        if
        :: f == NONE && fence != e && !OFF(LOOKUP_ONCE) -> e = fence; goto again
        :: else
        fi;
        assert(!before || f != NONE);
        over(false);
        e = 0; f = 0; before = 0
    }
}

init {
    atomic {
        c_code {
            now.gens = parameter("GENS");
            now.unlinks = parameter("UNLINKS");
            now.maintainers = parameter("MAINTAINERS");
            now.claimants = parameter("CLAIMANTS");
            now.drops = parameter("DROPS");
            now.looks = parameter("LOOKS");
            now.retries = parameter("RETRIES");
            now.how[0] = parameter("HOW0"); now.then[0] = parameter("THEN0");
            now.how[1] = parameter("HOW1"); now.then[1] = parameter("THEN1");
            now.how[2] = parameter("HOW2"); now.then[2] = parameter("THEN2");
            now.off = parameter("OFF");
        };
        assert(gens <= MAXGENS && gens + unlinks <= MAXEPOCHS);
        run Claimant(0);
        if
        :: claimants > 1 -> run Claimant(1)
        :: else
        fi;
        if
        :: claimants > 2 -> run Claimant(2)
        :: else
        fi;
        if
        :: looks -> run Lookup(3)
        :: else
        fi;
        run Maintainer(4);
        if
        :: maintainers > 1 -> run Maintainer(5)
        :: else
        fi
    }
}
