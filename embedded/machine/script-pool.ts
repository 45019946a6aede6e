import type { FifoPool } from './fifo-pool.ts'
import type { ScriptPlace } from './machine.ts'
import { enterNamespaces } from './placement.ts'
import { type ScriptListener, ScriptShell } from './script-shell.ts'

/**
 * Number of idle shells that are kept per place; a node's kube-proxy, its kubelet and a grader may run
 * scripts concurrently.
 */
const idleShells = 2

/** Shells that wait for scripts, by place. */
export class ScriptPool {
  private readonly pipes: FifoPool
  private readonly env: NodeJS.ProcessEnv
  private readonly idle = new Map<string, ScriptShell[]>()

  constructor(pipes: FifoPool, env: NodeJS.ProcessEnv) {
    this.pipes = pipes
    this.env = env
  }

  /** Runs a script in an idle shell of that place, or in a new one; the returned shell can be killed. */
  run(place: ScriptPlace, script: string, listener: ScriptListener): ScriptShell {
    const key = JSON.stringify([place.pid, place.netns])
    const waiting = (this.idle.get(key) ?? []).filter(({ alive }) => alive)
    const shell = waiting.pop() ?? new ScriptShell([...enterNamespaces(place), 'sh'], this.env, this.pipes)
    this.idle.set(key, waiting)
    shell.run(script, {
      ...listener,
      exit: (code, alive) => {
        const others = this.idle.get(key) ?? []
        if (alive && others.length < idleShells) this.idle.set(key, [...others, shell])
        else if (alive) shell.end()
        listener.exit(code, alive)
      },
    })
    return shell
  }
}
