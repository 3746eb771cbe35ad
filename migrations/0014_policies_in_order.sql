-- Pages of policies are in the order of code points, whatever the language of the database, so that admin may give some
-- of them out of memory.
create index policies_in_order on policies (domain collate "C", name collate "C");
