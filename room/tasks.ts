// Tasks that a room gives at random times: what a node holds at that moment, which no earlier
// recording can have. The number is read from the learner's own nodes, when the task comes and when
// it is answered; an answer between both is right, as counters grow meanwhile.

import { randomBytes, randomInt } from 'node:crypto'
import type { Table } from '../dataplane/iptables-save.ts'
import type { NodeState } from '../dataplane/node-state.ts'
import type { RoomTask } from './protocol.ts'

/** The kinds of tasks: the question about a node, and its answer. */
const TASKS: Readonly<
  Record<RoomTask['task'], { ask(node: string): string; count(state: NodeState): number }>
> = {
  'mark-masq-packets': {
    ask: (node) =>
      `Show the counters of KUBE-MARK-MASQ on ${node} now: how many packets has its MARK rule counted?`,
    count: ({ iptables }) => {
      const rules = iptables.get('nat')?.get('KUBE-MARK-MASQ')?.rules ?? []
      return rules.reduce((sum, { packets }) => sum + (packets ?? 0), 0)
    },
  },
  'nat-rules': {
    ask: (node) => `How many rules (lines with -A) has the table nat on ${node} now?`,
    count: ({ iptables }) => countRules(iptables.get('nat')),
  },
  'filter-rules': {
    ask: (node) => `How many rules (lines with -A) has the table filter on ${node} now?`,
    count: ({ iptables }) => countRules(iptables.get('filter')),
  },
}

const countRules = (table: Table | undefined): number =>
  [...(table?.values() ?? [])].reduce((sum, { rules }) => sum + rules.length, 0)

/** The number of workers that tasks are about: every cluster of the labs has two. */
const WORKERS = 2

/** A random task. */
export function randomTask(id: string): RoomTask {
  const kinds = Object.keys(TASKS) as RoomTask['task'][]
  return {
    id,
    nonce: randomBytes(8).toString('hex'),
    task: kinds[randomInt(kinds.length)] ?? 'nat-rules',
    worker: randomInt(WORKERS),
  }
}

/** What a task asks, of a node of this name. */
export const taskText = ({ task, worker }: RoomTask, node = workerName(worker)): string =>
  TASKS[task].ask(node)

const workerName = (worker: number) => (worker === 0 ? 'worker' : `worker${worker + 1}`)

/** The node that a task is about, among the nodes of a cluster: a worker if there is one. */
export function nodeOfTask({ worker }: RoomTask, nodes: readonly string[]): string | undefined {
  const workers = nodes.filter((node) => !node.endsWith('control-plane'))
  return workers[worker % Math.max(1, workers.length)] ?? nodes[0]
}

/** The number that a task asks for, on a node in this state. */
export const taskNumber = ({ task }: RoomTask, state: NodeState): number => TASKS[task].count(state)

/**
 * Whether an answer is a number between what the node held when the task came and when it was
 * answered.
 */
export function isTaskRight(text: string, before: number, after: number): boolean {
  const number = /^\s*\d{1,15}\s*$/.test(text) ? Number(text) : Number.NaN
  return number >= Math.min(before, after) && number <= Math.max(before, after)
}
