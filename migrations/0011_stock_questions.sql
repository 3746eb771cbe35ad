-- The question that each region's last allotment of a counter answered, and what the region had before it. A region
-- whose answer was lost asks the same question again, and is told the same: {"region": {"question": ..., "from": ...}}.
alter table stock_accounts add column asked jsonb not null default '{}' check (jsonb_typeof(asked) = 'object');
