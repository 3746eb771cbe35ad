-- The policy store: what operators decide, the record of who decided it, and the counters that must never go
-- back. Nothing here is read on the path of a check.

-- One row for the whole plane. Each change takes its lock first, so revisions are committed in their order:
-- whoever has seen revision n has been able to see every change up to n.
create table plane (
  is_only  boolean primary key default true check (is_only),
  plane_id uuid not null default gen_random_uuid(),
  revision bigint not null default 0 check (revision >= 0)
);
insert into plane default values;

-- Sums of the parts of a split; check constraints may call functions but hold no subqueries.
create function sum_of_parts(parts jsonb) returns numeric language sql immutable strict as $$
  select coalesce(sum(value::numeric), 0) from jsonb_each_text(parts)
$$;
create function least_part(parts jsonb) returns numeric language sql immutable strict as $$
  select coalesce(min(value::numeric), 0) from jsonb_each_text(parts)
$$;

create table regions (
  id            text primary key check (id ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  description   text not null default '' check (octet_length(description) <= 4096),
  state         text not null default 'active' check (state in ('active')),
  revision      bigint not null unique check (revision > 0),
  registered_at timestamptz not null default now()
);

-- Next incarnation per region. No foreign key: the counter outlives a region that is removed and added again.
create table incarnations (
  region      text primary key check (region ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  incarnation bigint not null check (incarnation > 0),
  is_first    boolean not null,
  request_id  text not null check (length(request_id) <= 128),
  taken_at    timestamptz not null default now()
);

create table domains (
  name       text primary key check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  created_at timestamptz not null default now()
);

create table policies (
  id               bigint generated always as identity primary key,
  domain           text not null references domains (name),
  name             text not null check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  description      text not null check (octet_length(description) <= 65536),
  match            jsonb not null check (jsonb_typeof(match) = 'array' and jsonb_array_length(match) > 0),
  mode             text not null check (mode in ('strict')),
  on_store_failure text not null check (on_store_failure in ('allow', 'deny')),
  revision         bigint not null unique check (revision > 0),
  created_at       timestamptz not null default now(),
  updated_at       timestamptz not null default now(),
  unique (domain, name)
);
-- Two policies with the same match would both claim to be the most specific one.
create unique index policies_match on policies (domain, md5(match::text));

-- `id` is part of every counter's name in every region, so it is never reused: identity values are not given
-- back, and the column cannot be written.
create table limits (
  id            bigint generated always as identity primary key,
  policy_id     bigint not null references policies (id) on delete cascade,
  position      smallint not null check (position >= 0),
  name          text not null check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  algorithm     text not null check (algorithm in ('token_bucket', 'fixed_window')),
  capacity      bigint not null check (capacity between 1 and 9007199254740991),
  window_ms     bigint not null check (window_ms between 1 and 31622400000),
  -- Null: as large as the capacity, and follows it.
  burst         bigint check (burst between 1 and 9007199254740991),
  -- Weights in per cent as the operator wrote them; the units they come to are in base_epochs.
  split         jsonb not null check (sum_of_parts(split) = 100 and least_part(split) >= 0),
  floor_percent smallint not null check (floor_percent between 0 and 100),
  usage_epoch   bigint not null default 0 check (usage_epoch >= 0),
  unique (policy_id, name),
  unique (policy_id, position) deferrable initially deferred
);

-- Base splits of a limit by epoch. An epoch is open until every registered region has adopted it.
create table base_epochs (
  limit_id  bigint not null references limits (id) on delete cascade,
  epoch     bigint not null check (epoch > 0),
  base      jsonb not null check (sum_of_parts(base) = 1000000 and least_part(base) >= 0),
  adopted   text[] not null default '{}',
  opened_at timestamptz not null default now(),
  closed_at timestamptz,
  primary key (limit_id, epoch)
);
create unique index base_epochs_open on base_epochs (limit_id) where closed_at is null;

-- Deleted policies, so that a region that was away learns of the deletion. Kept: a row is small, and a region
-- may have been away for any length of time.
create table policy_tombstones (
  policy_id  bigint primary key,
  domain     text not null,
  name       text not null,
  revision   bigint not null unique check (revision > 0),
  deleted_at timestamptz not null default now()
);

create table audit (
  seq         bigint generated always as identity primary key,
  at          timestamptz not null default clock_timestamp(),
  actor       text not null,
  action      text not null,
  object_kind text not null,
  object_id   text not null,
  before      jsonb,
  after       jsonb,
  request_id  text not null,
  reason      text
);
create index audit_object on audit (object_kind, object_id, seq);

-- A trigger and not only revoked rights, because the service owns the table and an owner keeps its rights.
create function refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception 'the audit log is append-only' using errcode = 'restrict_violation';
end;
$$;
create trigger audit_append_only before update or delete or truncate on audit
  for each statement execute function refuse_audit_change();
