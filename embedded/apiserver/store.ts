import type { V1ManagedFieldsEntry, V1ObjectMeta } from '@kubernetes/client-node'
import { deepFreeze, type JsonObject } from './json.ts'
import { resourceNamed, resources } from './resource.ts'
import { StatusError } from './status-error.ts'

/** The metadata of a stored object, with times as text. */
export interface ObjectMeta
  extends Omit<V1ObjectMeta, 'creationTimestamp' | 'deletionTimestamp' | 'managedFields'> {
  name: string
  uid: string
  resourceVersion: string
  creationTimestamp: string
  deletionTimestamp?: string
  /** The last write of each client. Which fields it wrote is not recorded. */
  managedFields?: (Omit<V1ManagedFieldsEntry, 'time'> & { time: string })[]
}

/** Any object of the API. */
export interface KubeObject {
  apiVersion: string
  kind: string
  metadata: ObjectMeta
}

/** A stored object: frozen, with complete metadata. */
export type Stored = KubeObject & Record<string, unknown>

/** An object of the API as JSON, which it is: its types have no index signature. */
export const jsonOf = (object: object): JsonObject => object as JsonObject

/** Merged, patched or decoded JSON as an object of the API; a write validates it. */
export const storedOf = (json: unknown): Stored => json as Stored

export interface StoreEvent {
  revision: number
  resource: string
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  object: Stored
  previous?: Stored
}

/**
 * What is kept at least for resumed watches, and at most twice; the objects are counted as JSON
 * text.
 */
const KEPT_CHANGES = 20_000
const KEPT_CHARACTERS = 64 * 1024 * 1024

function storeKey({ namespace, name }: Pick<ObjectMeta, 'namespace' | 'name'>): string {
  return `${namespace ?? ''}/${name}`
}

/**
 * Objects by resource and key, every change numbered by one revision counter, with a bounded
 * history.
 */
export class Store {
  readonly #tables = new Map(resources.map((resource) => [resource, new Map<string, Stored>()]))
  readonly #listeners = new Set<(event: StoreEvent) => void>()
  #history: { event: StoreEvent; characters: number }[] = []
  #historyCharacters = 0
  /** Changes up to and including this revision are no longer in the history. */
  #compacted = 0
  #current = 0

  /** The revision of the latest change. */
  get revision(): number {
    return this.#current
  }

  // The caller names the type of what it stored under a resource; the store itself knows only
  // metadata.
  get<T extends KubeObject = Stored>(
    resource: string,
    namespace: string | undefined,
    name: string,
  ): T | undefined {
    return this.#table(resource).get(storeKey({ namespace, name })) as T | undefined
  }

  /**
   * All objects of a resource, in no particular order: many times faster than `list` where there
   * are thousands.
   */
  all<T extends KubeObject = Stored>(resource: string): T[] {
    return [...this.#table(resource).values()] as KubeObject[] as T[]
  }

  /** Objects of a resource (of one namespace), in the order of namespace and name. */
  list<T extends KubeObject = Stored>(resource: string, namespace?: string): T[] {
    const found = this.all(resource).filter(
      ({ metadata }) => (namespace ?? metadata.namespace) === metadata.namespace,
    )
    return found.sort((left, right) =>
      storeKey(left.metadata) < storeKey(right.metadata) ? -1 : 1,
    ) as KubeObject[] as T[]
  }

  /** Adds or replaces an object. Returns it with its new resourceVersion. */
  put(resource: string, object: Stored): Stored {
    return this.#record(resource, object, false)
  }

  /** Removes an object. Its last state has the revision of the removal, as watchers expect. */
  remove(resource: string, object: Stored): Stored {
    return this.#record(resource, object, true)
  }

  /**
   * Calls back synchronously at each change, in order. Returns a function that ends the
   * subscription.
   */
  subscribe(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Changes of a resource after a revision. Throws 410 Expired when the history doesn't reach back
   * that far.
   */
  since(resource: string, revision: number): StoreEvent[] {
    if (revision < this.#compacted)
      throw new StatusError('Expired', `too old resource version: ${revision} (${this.#compacted})`)
    return this.#history
      .map(({ event }) => event)
      .filter((event) => event.revision > revision && event.resource === resource)
  }

  #table(resource: string): Map<string, Stored> {
    return this.#tables.get(resourceNamed(resource)) as Map<string, Stored>
  }

  #record(resource: string, input: Stored, isGone: boolean): Stored {
    const table = this.#table(resource)
    const key = storeKey(input.metadata)
    const previous = table.get(key)
    const revision = ++this.#current
    const object = deepFreeze({
      ...input,
      metadata: { ...input.metadata, resourceVersion: String(revision) },
    })
    if (isGone) table.delete(key)
    else table.set(key, object)
    const type = isGone ? 'DELETED' : previous ? 'MODIFIED' : 'ADDED'
    const event: StoreEvent = { revision, resource, type, object, ...(previous && { previous }) }
    this.#remember(event)
    for (const listener of [...this.#listeners]) listener(event)
    return object
  }

  #remember(event: StoreEvent): void {
    const { length: characters } = JSON.stringify(event.object)
    this.#history.push({ event, characters })
    this.#historyCharacters += characters
    if (this.#history.length <= KEPT_CHANGES * 2 && this.#historyCharacters <= KEPT_CHARACTERS * 2)
      return
    let [kept, sum] = [0, 0]
    for (const { characters } of this.#history.toReversed()) {
      if (kept === KEPT_CHANGES || sum + characters > KEPT_CHARACTERS) break
      kept++
      sum += characters
    }
    this.#compacted = this.#history.at(-kept - 1)?.event.revision ?? 0
    this.#history = this.#history.slice(this.#history.length - kept)
    this.#historyCharacters = sum
  }
}
