-- Labels of policies, by which operators and their tools tell whose a policy is.

alter table policies add column labels jsonb not null default '{}' check (jsonb_typeof(labels) = 'object');
create index policies_labels on policies using gin (labels jsonb_path_ops);
