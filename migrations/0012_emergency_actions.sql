-- What operators do to a policy in an emergency. Each row ends by itself: regions go by `expires_at`, and admin takes it
-- out then. What was done and how it ended is in the audit log and in the history of revisions.
create table emergency_actions (
  id         bigint generated always as identity primary key,
  policy_id  bigint not null references policies (id) on delete cascade,
  effect     jsonb not null check (effect ->> 'kind' in ('block', 'allow', 'multiply', 'fix', 'freeze', 'pin')),
  -- Of a pin to a split that is not the policy's: the base has to go back when it ends.
  split      jsonb check (sum_of_parts(split) = 100 and least_part(split) >= 0),
  reason     text not null check (octet_length(reason) between 1 and 4096),
  begun_by   text not null,
  begun_at   timestamptz not null,
  expires_at timestamptz not null check (expires_at > begun_at),
  -- Set once a pin has ended and its base is still on its way back.
  ended_at   timestamptz
);
create index emergency_actions_policy on emergency_actions (policy_id);
create index emergency_actions_expires on emergency_actions (expires_at);
