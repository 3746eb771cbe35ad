-- When a region that is drained for a time resumes by itself; null for one that stays drained until it is told.
-- Read only while the region is draining or drained: an admin of the version before leaves it behind when it resumes one.
alter table regions add column resumes_at timestamptz;
