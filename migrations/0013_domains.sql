-- Domains as a resource: what each is for, and whose it is. A domain still comes with its first policy, also from an
-- admin of the version before; its revision is 0 until somebody describes it.
alter table domains
  add column description text not null default '' check (octet_length(description) <= 4096),
  add column labels jsonb not null default '{}' check (jsonb_typeof(labels) = 'object'),
  add column revision bigint not null default 0 check (revision >= 0);
