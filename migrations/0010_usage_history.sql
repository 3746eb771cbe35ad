-- What came of checks by minute and hour. Every write brings a whole bucket and the larger figure stays, so writing
-- one twice, or by two admins, changes nothing. Not tied to limits: a removed one leaves its history until it is old
-- enough to be forgotten, and no id is used again.
create table usage_history (
  resolution   text not null check (resolution in ('minute', 'hour')),
  limit_id     bigint not null,
  usage_epoch  bigint not null check (usage_epoch >= 0),
  region       text not null check (octet_length(region) <= 63),
  starts_at    timestamptz not null,
  -- Of windows longer than a minute: which one, and the row holds its count until the bucket's end. -1: the row holds
  -- amounts of the bucket alone.
  usage_window bigint not null check (usage_window >= -1),
  admitted     bigint not null check (admitted >= 0),
  denied       bigint not null check (denied >= 0),
  returned     bigint not null check (returned >= 0),
  unmet        bigint not null check (unmet >= 0),
  primary key (resolution, limit_id, usage_epoch, starts_at, region, usage_window)
);
create index usage_history_age on usage_history (resolution, starts_at);

-- The admin that writes the history, so that several do not do the same work; no figure depends on it.
create table usage_history_writer (
  is_only     boolean primary key default true check (is_only),
  holder      uuid not null,
  lease_until timestamptz not null
);
