// Clusters that tests start end with vitest, however it ends: the processes in which it runs files
// may outlive it. Random tests draw the same examples in every run, and others with each SEED: what
// fails for one person fails for the next.

import { createHash } from 'node:crypto'
import fc from 'fast-check'

process.env.CLUSTER_OWNER ??= `${process.ppid}`

const { SEED } = process.env
fc.configureGlobal({ seed: SEED ? createHash('sha256').update(SEED).digest().readInt32BE() : 0 })
