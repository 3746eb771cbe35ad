-- Asks the enforcer about each request. When it does not answer, the request passes: in HAProxy 2.6 only after three
-- attempts to connect, a second apart; newer versions have `httpclient.retries 0` for the section `global`.
local ADDRESS = 'http://127.0.0.1:8080'
local QUERY = '/v1/authorize?domain=api&descriptor=tenant:header:x-tenant&missing=client'
local TIMEOUT_MS = 1000

local function first(headers, name)
  local values = headers and headers[name]
  return values and (values[0] or values[1]) or ''
end

core.register_action('quota', { 'http-req' }, function(txn)
  local tenant = first(txn.http:req_get_headers(), 'x-tenant')
  local answer = core.httpclient():get({
    url = ADDRESS .. QUERY,
    timeout = TIMEOUT_MS,
    headers = {
      ['x-tenant'] = { tenant },
      -- Start the enforcers with TRUSTED_PROXY_HOPS=1 to limit by this address.
      ['x-forwarded-for'] = { txn.sf:src() },
    },
  })
  if not answer then return end
  txn:set_var('txn.quota_status', tostring(answer.status))
  txn:set_var('txn.quota_wait', first(answer.headers, 'retry-after'))
  txn:set_var('txn.quota', first(answer.headers, 'ratelimit'))
  txn:set_var('txn.quota_policy', first(answer.headers, 'ratelimit-policy'))
end)
