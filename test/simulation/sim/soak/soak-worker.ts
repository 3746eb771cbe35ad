/** A thread of the soak: runs every n-th world and says what came of each. */
import { parentPort, workerData } from 'node:worker_threads'
import { soakWorld } from './soak-world.ts'

const { seed, stride } = workerData
for (let next = seed; ; next += stride) parentPort?.postMessage(soakWorld(next))
