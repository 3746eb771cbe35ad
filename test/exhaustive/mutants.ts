/** Rules of the protocol, each left out or turned round: the search must find what then goes wrong. */
export const MUTANTS = {
  'lease-dated-at-receipt':
    'a loan runs from the receipt of the acknowledgement, not from the own send that it acknowledges',
  'no-drift-margin': 'the lender waits as long as the loan, although its clock may run faster',
  'amnesia-without-wait': 'a region that lost its memory uses its whole base at once',
  'loan-not-addressed': 'a borrower uses a loan that was made to an earlier incarnation of it',
  'returns-not-term-scoped':
    'a lender counts returns of an earlier term or incarnation for the present loans',
  'delta-grants': 'the borrower adds up the figures of all records, instead of taking the greatest',
  'revives-lapsed-term': 'a late acknowledgement makes a lapsed loan usable again',
  'growers-do-not-wait': 'a region uses its larger new base before the donors have given theirs up',
  'adopts-without-room-for-floor': 'a donor adopts although its loans leave it less than its floor',
  'donor-adopts-with-loans-out': 'a donor adopts its smaller base while it has lent more than that',
  'publishes-before-shrink': 'the record tells of a loan before the own share is durably smaller',
  'returns-before-shrink': 'the record tells of a return before the own share is durably smaller',
  'lends-borrowed-units': 'what was borrowed is lent on',
  'restart-forgets-waiting':
    'a restarted lender does not wait anew for loans that it may just have renewed',
  'reclaims-without-waiting': 'the lender takes units back as soon as it wants them',
  'amnesiac-uses-old-base':
    'a region that lost its memory goes on with the base from before the open epoch',
  'amnesiac-adopts-early':
    'a recovering region says that it adopted, while its forgotten loans are still used',
  'certificate-counts-at-once':
    'an operator’s certificate stands for a region’s adoption while its loans are still used',
  'recovers-without-an-answer':
    'a recovering region does not wait for one that has not said that it uses no forgotten loan',
  'answers-without-letting-go':
    'a region answers a recovering one as soon as it hears it, and goes on using what it borrowed',
} as const

export type Mutant = keyof typeof MUTANTS

export function isMutant(name: string): name is Mutant {
  return Object.hasOwn(MUTANTS, name)
}

export const MUTANT_NAMES: readonly Mutant[] = Object.keys(MUTANTS).filter(isMutant)
