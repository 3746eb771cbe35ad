-- Tiers of a policy, and what single tenants have in place of its numbers.

alter table policies
  add column tiers jsonb check (jsonb_typeof(tiers) = 'object'),
  add column overrides_by text;

create table overrides (
  policy_id  bigint not null references policies (id) on delete cascade,
  value      text not null check (octet_length(value) between 1 and 1024),
  rule       jsonb not null check (rule ->> 'kind' in ('tier', 'numbers', 'unlimited', 'deny')),
  expires_at timestamptz,
  primary key (policy_id, value)
);
