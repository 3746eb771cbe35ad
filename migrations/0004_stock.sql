-- Long windows: what each region was given of them. Every token of a window belongs to one region, so these rows are
-- what keeps the regions together under the limit; a Postgres restored from an older copy would give tokens twice.

-- A window that some region has asked for, with what each region may spend in it without asking. Both are pinned: a
-- later edit of the split or the floor holds from the next window on.
create table stock_windows (
  limit_id    bigint not null references limits (id) on delete cascade,
  usage_epoch bigint not null check (usage_epoch >= 0),
  starts_ms   bigint not null check (starts_ms >= 0),
  ends_ms     bigint not null check (ends_ms > starts_ms),
  floors      jsonb not null check (jsonb_typeof(floors) = 'object' and least_part(floors) >= 0),
  opened_at   timestamptz not null default now(),
  primary key (limit_id, usage_epoch, starts_ms)
);
create index stock_windows_ends on stock_windows (ends_ms);

-- One row for each counter that some region used beyond its floor. `allotted`: tokens by region; never lowered.
create table stock_accounts (
  limit_id    bigint not null,
  usage_epoch bigint not null,
  starts_ms   bigint not null,
  counter     text not null check (octet_length(counter) <= 512),
  allotted    jsonb not null default '{}' check (least_part(allotted) >= 0),
  primary key (limit_id, usage_epoch, starts_ms, counter),
  foreign key (limit_id, usage_epoch, starts_ms) references stock_windows on delete cascade
);
