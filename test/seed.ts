// Clusters that tests start end with the process that runs them, however it ends.
// Random tests draw the same examples in every run, and others with each SEED: what fails for one person fails for the next.

import { createHash } from 'node:crypto'
import fc from 'fast-check'

process.env.CLUSTER_OWNER ??= `${process.pid}`

const { SEED } = process.env
fc.configureGlobal({ seed: SEED ? createHash('sha256').update(SEED).digest().readInt32BE() : 0 })
