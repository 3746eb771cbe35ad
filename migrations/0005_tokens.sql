-- Bearer tokens of the admin API. Only a digest of a token is kept: who reads the database cannot use what it holds.
create table tokens (
  id           text primary key check (id ~ '^[a-z2-7]{16}$'),
  name         text not null check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  digest       bytea not null check (octet_length(digest) = 32),
  scopes       text[] not null check (
    cardinality(scopes) > 0
    and scopes <@ array['quota:read', 'quota:write', 'quota:check', 'quota:admin']
  ),
  -- Null: every domain.
  domains      text[] check (cardinality(domains) > 0),
  created_at   timestamptz not null default now(),
  created_by   text not null,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz
);
-- A name identifies a token to people, so two that work may not share it; a revoked one may be replaced.
create unique index tokens_name on tokens (name) where revoked_at is null;
