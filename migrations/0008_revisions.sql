-- Revisions as a history: who raised the plane's revision, when and why, and every document as it was before and after.

create table revisions (
  number     bigint primary key check (number > 0),
  -- One change may touch many policies, each of which takes a number of its own: those from `first` to `number`.
  first      bigint not null check (first between 1 and number),
  at         timestamptz not null default clock_timestamp(),
  actor      text not null,
  reason     text,
  request_id text not null
);

create table revision_changes (
  revision    bigint not null references revisions (number),
  position    integer not null check (position >= 0),
  action      text not null,
  -- `policy` and `override` are documents that can be brought back; the others tell what else a revision did.
  object_kind text not null,
  object_id   text not null,
  before      jsonb,
  after       jsonb,
  primary key (revision, position)
);
-- What an object was at a revision is what the first change after it began with.
create index revision_changes_object on revision_changes (object_kind, object_id, revision, position);

-- The history of a plane that is older than this table begins here: what was before cannot be told.
insert into revisions (number, first, actor, reason, request_id)
  select revision, revision, 'migration', 'the history of revisions begins here', 'migration' from plane where revision > 0;

create function refuse_history_change() returns trigger language plpgsql as $$
begin
  raise exception 'the history of revisions is append-only' using errcode = 'restrict_violation';
end;
$$;
create trigger revisions_append_only before update or delete or truncate on revisions
  for each statement execute function refuse_history_change();
create trigger revision_changes_append_only before update or delete or truncate on revision_changes
  for each statement execute function refuse_history_change();

-- Null: the entry changed nothing that regions know of, such as a token, or is older than the history.
alter table audit add column revision bigint references revisions (number);
