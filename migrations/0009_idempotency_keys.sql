-- Answers to writes that came with an Idempotency-Key, written in the transaction of the write: a write that is
-- repeated because its answer was lost gets that answer and changes nothing again.

create table idempotency_keys (
  -- Callers choose their keys, so two may choose the same; and nobody reads another's answer by guessing a key.
  actor       text not null,
  key         text not null check (octet_length(key) between 1 and 255),
  -- Digest of the request, since one key must not stand for two.
  fingerprint bytea not null check (octet_length(fingerprint) = 32),
  at          timestamptz not null default clock_timestamp(),
  -- Null: an answer that holds a secret and is not kept.
  answer      jsonb,
  primary key (actor, key)
);
create index idempotency_keys_at on idempotency_keys (at);
