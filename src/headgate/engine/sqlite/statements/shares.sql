-- Fair shares (rule 17): weights, tags, virtual times, mean times, and work that is done in slices.

-- name: weights
-- What operators said about shares.
SELECT share, weight, "by", at, why, until FROM weights;

-- name: put_weight
-- An operator's word on a share.   ?1 share  ?2 weight  ?3 by  ?4 at  ?5 why  ?6 until
INSERT OR REPLACE INTO weights (share, weight, "by", at, why, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: forget_weight
-- An operator's word on a share is taken back.   ?1 share
DELETE FROM weights WHERE share = ?1;

-- name: declared_weights
-- The weights that code declares.
SELECT share, weight FROM declared_weights;

-- name: declare_weight
-- A weight that code declares.   ?1 share  ?2 weight
INSERT OR REPLACE INTO declared_weights (share, weight) VALUES (?1, ?2);

-- name: virtual_times
-- How far the shares of every queue and priority have come.
SELECT queue, priority, tag FROM virtual_times;

-- name: virtual_time
-- The largest tag that has started in a queue at a priority.   ?1 queue  ?2 priority
SELECT tag FROM virtual_times WHERE queue = ?1 AND priority = ?2;

-- name: advance
-- A job with a tag has started.   ?1 queue  ?2 priority  ?3 tag
INSERT INTO virtual_times (queue, priority, tag) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, priority) DO UPDATE SET tag = max(tag, excluded.tag);

-- name: last_tag
-- The largest tag among the ready and waiting jobs of a share in a queue at a priority; one row, also without any.
-- ?1 queue  ?2 priority  ?3 share
-- Reads: jobs_shares, its last entry.
SELECT (
    SELECT tag FROM jobs
    WHERE share_line IS NOT NULL AND queue = ?1 AND priority = ?2 AND share_line = ?3
    ORDER BY tag DESC LIMIT 1
);

-- name: mean
-- How long attempts of a share in a queue take.   ?1 queue  ?2 share
SELECT us, at, step FROM means WHERE queue = ?1 AND share = ?2;

-- name: put_mean
-- The same is written.   ?1 queue  ?2 share  ?3 us  ?4 at  ?5 step
INSERT OR REPLACE INTO means (queue, share, us, at, step) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: forget_mean
-- A share that has been idle for long.   ?1 queue  ?2 share
DELETE FROM means WHERE queue = ?1 AND share = ?2;

-- name: old_means
-- Shares of which no attempt has ended for long.   ?1 until  ?2 how many
-- Reads: means_at.
SELECT queue, share FROM means WHERE at <= ?1 ORDER BY at LIMIT ?2;

-- name: idle_places
-- Queues and priorities without unfinished jobs of any share. Where very many jobs run, none is taken to be idle.
-- ?1 how many
-- Reads: jobs_shares, jobs_running.
SELECT v.queue, v.priority FROM virtual_times v
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.share_line IS NOT NULL AND j.queue = v.queue AND j.priority = v.priority)
  AND NOT EXISTS (SELECT 1 FROM (SELECT queue, priority, tag FROM jobs WHERE state = 'running' AND worker >= '' LIMIT 1001) r
                  WHERE r.queue = v.queue AND r.priority = v.priority AND r.tag > 0)
  AND (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'running' AND worker >= '' LIMIT 1001)) <= 1000
LIMIT ?1;

-- name: forget_virtual_time
-- What no share needs any more.   ?1 queue  ?2 priority
DELETE FROM virtual_times WHERE queue = ?1 AND priority = ?2;

-- name: shared_places
-- The queues and priorities that have ready or waiting jobs of shares: two index steps each.
-- Reads: jobs_shares.
WITH RECURSIVE p(queue, priority) AS (
    SELECT * FROM (SELECT queue, priority FROM jobs WHERE share_line IS NOT NULL AND queue >= ''
                   ORDER BY queue, priority LIMIT 1)
    UNION ALL
    SELECT j.queue, j.priority FROM p JOIN jobs j ON j.seq = coalesce(
        (SELECT n.seq FROM jobs n WHERE n.share_line IS NOT NULL AND n.queue = p.queue AND n.priority > p.priority
         ORDER BY n.priority LIMIT 1),
        (SELECT n.seq FROM jobs n WHERE n.share_line IS NOT NULL AND n.queue > p.queue
         ORDER BY n.queue, n.priority LIMIT 1)
    )
)
SELECT queue, priority FROM p;

-- name: shares_at
-- The next shares that have ready or waiting jobs in a queue at a priority: one index step each, however many jobs.
-- ?1 queue  ?2 priority  ?3 after which share  ?4 how many
-- Reads: jobs_shares.
WITH RECURSIVE s(share) AS (
    SELECT min(share_line) FROM jobs WHERE share_line IS NOT NULL AND queue = ?1 AND priority = ?2 AND share_line > ?3
    UNION ALL
    SELECT (SELECT min(j.share_line) FROM jobs j
            WHERE j.share_line IS NOT NULL AND j.queue = ?1 AND j.priority = ?2 AND j.share_line > s.share)
    FROM s WHERE s.share IS NOT NULL
    LIMIT ?4
)
SELECT share FROM s WHERE share IS NOT NULL;

-- name: share_pending
-- How many ready or waiting jobs a share has in a queue at a priority.   ?1 queue  ?2 priority  ?3 share
-- Reads: jobs_shares, as many entries as there are such jobs.
SELECT count(*) FROM jobs WHERE share_line IS NOT NULL AND queue = ?1 AND priority = ?2 AND share_line = ?3;

-- name: tags_from
-- The next ready and waiting jobs of a share, upwards.   ?1 queue  ?2 priority  ?3 share  ?4 tag  ?5 seq  ?6 how many
-- Reads: jobs_shares, in index order.
SELECT seq, tag FROM jobs
WHERE share_line IS NOT NULL AND queue = ?1 AND priority = ?2 AND share_line = ?3 AND (tag, seq) > (?4, ?5)
ORDER BY tag, seq LIMIT ?6;

-- name: tags_down_from
-- Likewise downwards, as far as the virtual time.   ?7 virtual time
-- Reads: jobs_shares, in reverse index order.
SELECT seq, tag FROM jobs
WHERE share_line IS NOT NULL AND queue = ?1 AND priority = ?2 AND share_line = ?3 AND (tag, seq) < (?4, ?5) AND tag > ?7
ORDER BY tag DESC, seq DESC LIMIT ?6;

-- name: retag
-- A job's tag follows its share's step.   ?1 seq  ?2 tag
-- Writes: jobs by rowid; the lines.
UPDATE jobs SET tag = ?2 WHERE seq = ?1;

-- name: add_slice
-- Work that is done in slices.   ?1 kind  ?2 queue  ?3 priority  ?4 share  ?5 old  ?6 new  ?7 virtual  ?8 tag  ?9 seq
INSERT INTO slices (kind, queue, priority, share, old, new, virtual, tag, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: next_slice
-- The oldest work that is done in slices.
SELECT id, kind, queue, priority, share, old, new, virtual, tag, seq FROM slices ORDER BY id LIMIT 1;

-- name: retags
-- What is left to do where a share's jobs are tagged anew, oldest first.   ?1 queue  ?2 priority  ?3 share
SELECT id, old FROM slices WHERE kind = 'retag' AND queue = ?1 AND priority = ?2 AND share = ?3 ORDER BY id;

-- name: turn_slice
-- Work that has not begun leads elsewhere.   ?1 id  ?2 new  ?3 tag and seq to begin at
UPDATE slices SET new = ?2, tag = ?3, seq = ?3 WHERE id = ?1;

-- name: move_slice
-- A slice was done.   ?1 id  ?2 tag  ?3 seq
UPDATE slices SET tag = ?2, seq = ?3 WHERE id = ?1;

-- name: forget_slice
-- All of it was done.   ?1 id
DELETE FROM slices WHERE id = ?1;
