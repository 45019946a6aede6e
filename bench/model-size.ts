// What a large cluster's prediction costs in a process that does nothing else, so that its memory
// can be told.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { compareNodeState } from '../dataplane/compare.ts'
import { parseIptablesSave, type Ruleset } from '../dataplane/iptables-save.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import { type ClusterObjects, readObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'

/**
 * Files of the measured folder: the cluster's objects as kubectl prints them, and a node's rules.
 */
export const OBJECTS = 'objects.json'
export const RULES = 'rules.txt'

/** The prediction of a worker of the cluster that is measured. */
export const predictLarge = (objects: ClusterObjects): NodeState =>
  predict(objects, { node: 'k8s-guide-worker', mode: 'iptables', version: 'v1.34' })

/** What one size costs: the shortest of three runs each, and the memory of a process. */
export interface SizeFigures {
  predictMs: number
  parseMs: number
  compareMs: number
  /**
   * The largest resident set of the process, Node included, after one prediction, one reading and
   * one comparison.
   */
  megabytes: number
}

/**
 * The shortest of three runs, in milliseconds, with the last result; only one result is in memory
 * at a time.
 */
function best<T>(work: () => T): { ms: number; result: T } {
  let ms = Number.POSITIVE_INFINITY
  for (let runs = 1; ; runs++) {
    const began = performance.now()
    const result = work()
    ms = Math.min(ms, performance.now() - began)
    if (runs === 3) return { ms, result }
  }
}

/** A function of its own, so that its texts are not kept by the frame of its caller. */
const readCluster = (folder: string): ClusterObjects =>
  readObjects(JSON.parse(readFileSync(join(folder, OBJECTS), 'latin1'))).objects

/**
 * Prints the figures of the objects and rules in a folder as JSON; for a process that does nothing
 * else.
 */
export function measureSize(folder: string): void {
  const objects = readCluster(folder)
  const text = readFileSync(join(folder, RULES), 'latin1')
  const predictOnce = () => predictLarge(objects)
  const parse = () => parseIptablesSave(text)
  const compare = (prediction: NodeState, iptables: Ruleset) =>
    compareNodeState(prediction, { ...prediction, iptables }, { mode: 'iptables' })

  if (compare(predictOnce(), parse()).length > 0)
    throw new Error(`a prediction differs from itself in "${folder}"`)
  const megabytes = process.resourceUsage().maxRSS / 1024
  const { ms: predictMs, result: prediction } = best(predictOnce)
  const { ms: parseMs, result: rules } = best(parse)
  const { ms: compareMs } = best(() => compare(prediction, rules))
  const figures: SizeFigures = { predictMs, parseMs, compareMs, megabytes }
  console.log(JSON.stringify(figures))
}
