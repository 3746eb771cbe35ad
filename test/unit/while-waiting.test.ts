import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { whileWaiting } from '../../services/admin/while-waiting.ts'

test('work that fails while Postgres is asked is told only once Postgres has answered', async () => {
  let answer: (rows: string) => void = () => {}
  const asked = new Promise<string>((resolve) => {
    answer = resolve
  })
  let told: unknown = null
  const waiting = whileWaiting(asked, [1], () => {
    throw new Error('no such limit')
  }).catch((err: unknown) => {
    told = err
  })
  for (let turns = 0; turns < 10; turns++) await turn()
  expect(told).toBeNull()
  answer('rows')
  await waiting
  expect(told).toEqual(new Error('no such limit'))
})

test('what Postgres refuses is thrown after all of the work', async () => {
  const done: number[] = []
  const refused = Promise.reject(new Error('refused'))
  await expect(whileWaiting(refused, [1, 2], (item) => done.push(item))).rejects.toThrow('refused')
  expect(done).toEqual([1, 2])
})
