-- Domains are what gateways send, and those of other systems' configurations have names of their own. A policy may put
-- others out of force for the checks in which it governs a descriptor.

alter table domains
  drop constraint domains_name_check,
  add constraint domains_name_check check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$');

alter table policies
  add column replaces text[] check (cardinality(replaces) > 0);
