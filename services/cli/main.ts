#!/usr/bin/env node
import { text } from 'node:stream/consumers'
import { sinkOf } from './io.ts'
import { runProgram } from './program.ts'

const stopping = new AbortController()
let signals = 0
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    // The first asks for an orderly stop; whoever asks three times leaves the clearing up to the guard.
    signals++
    stopping.abort()
    if (signals >= 3) process.exit(1)
  })
}
// A reader such as `head` may go away before everything is written; that is no failure.
process.stdout.on('error', () => process.exit(0))

process.exitCode = await runProgram(process.argv.slice(2), {
  out: sinkOf(process.stdout, process.env),
  err: sinkOf(process.stderr, process.env),
  env: process.env,
  readStdin: () => text(process.stdin),
  signal: stopping.signal,
})
