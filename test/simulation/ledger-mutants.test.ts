import { describe, expect, it } from 'vitest'
import { hunt, LEDGER_HUNTS } from './kills.ts'
import {
  cutInLongWindow,
  cutSlowLink,
  doubtUnheard,
  healAtLapse,
  lendAgain,
  loseDonor,
  loseLenderOfCutBorrower,
  loseReplies,
  quarantineInEpoch,
  removeLender,
  removeSpender,
  takeOverBorrower,
  takeOverLender,
} from './model/scenarios.ts'
import { eachSeed } from './seeds.ts'

describe('a protocol in which', () => {
  it.each(LEDGER_HUNTS)('$rule is caught', (one) => {
    expect(hunt(one), `no seed up to ${one.seedsMax} shows it`).not.toBeNull()
  })
})

describe('the faithful protocol', () => {
  it('passes the scenarios that catch its broken variants', () => {
    eachSeed(60, (seed) => healAtLapse(seed))
    eachSeed(5, (seed) => cutInLongWindow(seed))
    for (const scenario of [
      cutSlowLink,
      doubtUnheard,
      lendAgain,
      loseDonor,
      loseLenderOfCutBorrower,
      loseReplies,
      quarantineInEpoch,
      removeLender,
      removeSpender,
      takeOverBorrower,
      takeOverLender,
    ]) {
      eachSeed(2, (seed) => scenario(seed))
    }
  })
})
