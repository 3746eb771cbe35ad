-- The life cycle of a region: drained, resumed, removed, and what must be known of one that was.

alter table regions drop constraint regions_state_check;
alter table regions add constraint regions_state_check
  check (state in ('active', 'draining', 'drained', 'resuming', 'removing'));

-- Certificates of operators that a region is fenced off, by which it can be removed without being heard.
create table removals (
  region       text primary key references regions (id) on delete cascade,
  certified_by text not null check (octet_length(certified_by) between 1 and 1024),
  reason       text not null check (octet_length(reason) between 1 and 4096),
  certified_at timestamptz not null
);

-- Regions that were removed. No foreign key: the row outlives the region, and its return.
create table departures (
  region            text primary key check (region ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  revision          bigint not null check (revision > 0),
  -- Every region that stayed was heard to have applied the removal: nobody lends to it any more.
  settled_at        timestamptz,
  -- Null: it left with nothing of its own. Otherwise records of earlier incarnations are not believed again.
  least_incarnation bigint check (least_incarnation > 0)
);

-- Whether the base of a policy's limits follows the demand. Off: it stays what the operator's split says.
alter table policies add column rebase text not null default 'off' check (rebase in ('off', 'auto'));
