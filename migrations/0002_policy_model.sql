-- The policy model: modes and objectives, what is watched and not enforced, and every algorithm.

alter table policies
  drop constraint policies_mode_check,
  drop constraint policies_on_store_failure_check,
  add constraint policies_mode_check check (mode in ('strict', 'relaxed', 'eventual')),
  add constraint policies_on_store_failure_check check (on_store_failure in ('allow', 'deny', 'local')),
  add column relaxed_percent smallint check (relaxed_percent between 1 and 100),
  add column objective text not null default 'max-min' check (objective in ('max-min', 'proportional')),
  add column shadow boolean not null default false,
  add column unlimited boolean not null default false,
  add column accept_small_limits boolean not null default false,
  add constraint policies_relaxed_check check ((mode = 'relaxed') = (relaxed_percent is not null));

alter table limits
  drop constraint limits_algorithm_check,
  drop constraint limits_capacity_check,
  drop constraint limits_policy_id_name_key,
  add constraint limits_algorithm_check check (algorithm in ('token_bucket', 'leaky_bucket', 'fixed_window',
    'sliding_window', 'sliding_log', 'sliding_counter', 'concurrency')),
  add constraint limits_capacity_check check (capacity between 0 and 9007199254740991),
  -- Windows of a calendar; window_ms is then the longest of them. Of a concurrency limit window_ms is the longest hold.
  add column calendar_unit text check (calendar_unit in ('minute', 'hour', 'day', 'week', 'month')),
  add column time_zone text check (octet_length(time_zone) between 1 and 128),
  add column shards smallint not null default 1 check (shards between 1 and 16),
  add column leases text not null default 'auto' check (leases in ('auto', 'off')),
  -- A candidate has counters, shares and epochs of its own like any limit, so it has a row and an id of its own.
  add column candidate_of bigint unique references limits (id) on delete cascade check (candidate_of <> id),
  add constraint limits_calendar_check check (
    (calendar_unit is null) = (time_zone is null) and (calendar_unit is null or algorithm = 'fixed_window'));
create unique index limits_policy_id_name on limits (policy_id, name) where candidate_of is null;
