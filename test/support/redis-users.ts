import {
  type REDIS_USERS,
  redisPasswordHash,
  redisUsers,
} from '../../services/cli/keys/redis-users.ts'
import { Secret } from '../../shared/runtime/env.ts'

const passwordOf = (user: string): string => `password of ${user}`
const loginOf = (user: (typeof REDIS_USERS)[number]) => ({
  username: user,
  password: new Secret(passwordOf(user)),
})

/** As whom the services connect to a Redis that has the users of a region. */
export const LOGINS = {
  enforcer: loginOf('enforcer'),
  sync: loginOf('sync'),
  operator: loginOf('operator'),
}

/**
 * Arguments of a redis-server with the users of a region. The user `default` may do everything there, so that tests can
 * look at what the services did.
 */
export const USER_ARGUMENTS: readonly string[] = redisUsers((user) =>
  redisPasswordHash(passwordOf(user)),
)
  .split('\n')
  .filter((line) => /^user (enforcer|sync|operator) /.test(line))
  .flatMap((line) => line.replace('user', '--user').split(' '))
