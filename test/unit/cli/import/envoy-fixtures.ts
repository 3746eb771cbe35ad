/** One configuration for each rule of the format, with descriptors that meet it and others that miss it. */
export interface EnvoyFixture {
  readonly what: string
  readonly texts: readonly string[]
  /** Descriptors, as `key=value` lists. */
  readonly descriptors: readonly (readonly string[])[]
}

export const ENVOY_FIXTURES: readonly EnvoyFixture[] = [
  {
    what: 'two values of one key',
    texts: [
      `domain: db_connections
descriptors:
  - {key: database, value: users, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: database, value: default, rate_limit: {unit: SECOND, requests_per_unit: 3}}`,
    ],
    descriptors: [['database=users'], ['database=default'], ['database=other']],
  },
  {
    what: 'a nested list, and a limit of each value',
    texts: [
      `domain: messaging
descriptors:
  # Few marketing messages to a number.
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: {unit: day, requests_per_unit: 2}
  - key: to_number
    rate_limit: {unit: day, requests_per_unit: 5}`,
    ],
    descriptors: [
      ['message_type=marketing', 'to_number=1'],
      ['message_type=marketing', 'to_number=2'],
      ['to_number=1'],
      ['to_number=2'],
      ['message_type=marketing'],
      ['message_type=news', 'to_number=1'],
    ],
  },
  {
    what: 'a value that is denied before the others of its key',
    texts: [
      `domain: edge_proxy_per_ip
descriptors:
  - key: remote_address
    rate_limit: {unit: second, requests_per_unit: 4}
  - key: remote_address
    value: 50.0.0.5
    rate_limit: {unit: second, requests_per_unit: 0}`,
    ],
    descriptors: [['remote_address=50.0.0.1'], ['remote_address=50.0.0.5']],
  },
  {
    what: 'levels that a descriptor must have all of, and no more',
    texts: [
      `domain: levels
descriptors:
  - key: key
    value: value
    rate_limit: {requests_per_unit: 3, unit: second}
    descriptors:
      - key: subkey
        rate_limit: {requests_per_unit: 2, unit: minute}`,
    ],
    descriptors: [
      ['key=value'],
      ['key=value', 'subkey=a'],
      ['key=value', 'subkey=b'],
      ['key=value', 'subkey=a', 'more=1'],
      ['key=value', 'other=a'],
    ],
  },
  {
    what: 'a descriptor without a limit, beside one with',
    texts: [
      `domain: internal
descriptors:
  - key: ldap
    rate_limit: {unlimited: true}
  - key: azure
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 2}
  - {key: user, value: root}`,
    ],
    descriptors: [['ldap=1'], ['azure=1'], ['azure=2'], ['user=root'], ['user=ann']],
  },
  {
    what: 'shadows, which deny nothing',
    texts: [
      `domain: shadows
descriptors:
  - key: service
    descriptors:
      - {key: user, value: user-a, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: second}}
      - {key: user, value: user-b, rate_limit: {requests_per_unit: 2, unit: minute}}`,
    ],
    descriptors: [
      ['service=auth', 'user=user-a'],
      ['service=auth', 'user=user-b'],
      ['service=mail', 'user=user-b'],
      ['service=auth', 'user=user-d'],
    ],
  },
  {
    what: 'a limit that replaces another in the same check',
    texts: [
      `domain: replacing
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - key: user
        value: bob
        rate_limit: {name: specific_limit, requests_per_unit: 2, unit: second}
  - key: key_2
    value: value_2
    descriptors:
      - key: user
        value: bob
        rate_limit: {replaces: [{name: specific_limit}], requests_per_unit: 5, unit: second}`,
    ],
    descriptors: [
      ['key_1=value_1', 'user=bob'],
      ['key_2=value_2', 'user=bob'],
    ],
  },
  {
    what: 'fields that only metrics have',
    texts: [
      `domain: metrics
descriptors:
  - key: key1
    detailed_metric: true
    value_to_metric: true
    metadata: {owner: [team, 1, {deep: 1.5}]}
    rate_limit: {unit: minute, requests_per_unit: 3}
  - {key: key1, value: value1, rate_limit: {unit: month, requests_per_unit: 2}}`,
    ],
    descriptors: [['key1=other'], ['key1=another'], ['key1=value1']],
  },
  {
    what: 'wildcards, each value apart, in the order of the file',
    texts: [
      `domain: wildcards
descriptors:
  - {key: path, value: /v1/*/items, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: path, value: /v1/*, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: path, value: /v1/users, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: path, value: "*", rate_limit: {unit: minute, requests_per_unit: 5}}`,
    ],
    descriptors: [
      ['path=/v1/a/items'],
      ['path=/v1/b/items'],
      ['path=/v1/a'],
      ['path=/v1/users'],
      ['path=/v2'],
    ],
  },
  {
    what: 'thresholds that all values of a wildcard share, on several levels',
    texts: [
      `domain: shared
descriptors:
  - key: files
    value: files/*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 4}
  - key: path
    value: path/*
    share_threshold: true
    descriptors:
      - key: file
        value: f*g
        descriptors:
          - {key: type, rate_limit: {unit: minute, requests_per_unit: 3}}
      - key: file
        share_threshold: false
        descriptors:
          - {key: type, rate_limit: {unit: hour, requests_per_unit: 2}}`,
    ],
    descriptors: [
      ['files=files/a'],
      ['files=files/b'],
      ['path=path/a', 'file=fag', 'type=x'],
      ['path=path/b', 'file=fag', 'type=x'],
      ['path=path/b', 'file=fbg', 'type=x'],
      ['path=path/b', 'file=z', 'type=x'],
    ],
  },
  {
    what: 'a branch that fits best and ends, beside a lesser one that goes on',
    texts: [
      `domain: branches
descriptors:
  - key: tenant
    value: acme
    descriptors:
      - {key: path, value: /a, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: tenant
    value: a*
    descriptors:
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 3}}
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 4}}
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}`,
    ],
    descriptors: [
      ['tenant=acme', 'path=/a'],
      ['tenant=acme', 'path=/b'],
      ['tenant=acme', 'user=1'],
      ['tenant=acme'],
      ['tenant=abc', 'path=/b'],
      ['tenant=abc', 'user=1'],
      ['tenant=xyz', 'path=/b'],
      ['tenant=xyz', 'user=1'],
      ['tenant=xyz'],
    ],
  },
  {
    what: 'one domain in two files',
    texts: [
      `domain: merged
descriptors:
  - &limited {key: one, rate_limit: &often {unit: minute, requests_per_unit: 2}}`,
      `domain: merged
descriptors:
  - key: two
    rate_limit: {<<: {unit: minute, requests_per_unit: 3}}`,
    ],
    descriptors: [['one=1'], ['two=1'], ['three=1']],
  },
]
