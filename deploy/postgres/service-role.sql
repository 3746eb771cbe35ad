-- The role that admin runs as, apart from the one that owns the schema.
--
-- Run as the owner, after the schema was made (`quotaplane admin init` or the first admin, with the owner's URL):
--
--   psql "$OWNER_URL" -v password=… -f deploy/postgres/service-role.sql
--
-- Then give admin a DATABASE_URL with this role. It may add to the audit log and read it; it may not change or remove
-- an entry, nor the trigger that forbids the same to everyone, since it owns nothing. New versions migrate with the
-- owner's URL first, and then run this file again.
do $$
begin
  if not exists (select from pg_roles where rolname = 'quotaplane_service') then
    create role quotaplane_service login;
  end if;
end;
$$;
alter role quotaplane_service password :'password';
grant usage on schema public to quotaplane_service;
grant select, insert, update, delete on all tables in schema public to quotaplane_service;
grant usage on all sequences in schema public to quotaplane_service;
revoke all on audit from quotaplane_service;
grant select, insert on audit to quotaplane_service;
