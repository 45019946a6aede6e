import { parseImageReference } from '../../../host/image-reference.ts'
import type { Api } from '../../apiserver/api.ts'
import type { GuestFile, Machine, Placement } from '../../machine/machine.ts'
import type { ContainerContext } from '../objects.ts'

interface NamedImage {
  /**
   * Repositories of this image, without `docker.io/`, `library/` and tag. The first is its name.
   */
  names: readonly string[]
  /** The existing tags; `latest` always exists. */
  tags: RegExp
  /** One line for the list of images that exist. */
  about: string
}

/** An image whose containers are processes of the guest. Its files are the guest's plus its own. */
export interface ProcessImage extends NamedImage {
  command: readonly string[]
  stopSignal?: string
  files?(context: ContainerContext): GuestFile[]
  /** Folders that are empty at the start, even if they are not in the guest. */
  emptyFolders?: readonly string[]
  /**
   * A line of its command's output that shows that it serves; a container counts as running only
   * after it.
   */
  serving?: RegExp
}

/** The context of a built-in container. */
export interface BuiltinContext extends ContainerContext {
  machine: Machine
  /** The node's namespaces for Pods with hostNetwork, else the Pod's network namespace. */
  placement: Placement
  api: Api
  /** One line of the container's standard output. */
  log(line: string): void
  /** One line of its standard error. */
  stderr(line: string): void
}

/** A running built-in container. `exited` settles with its exit code, also after `stop`. */
export interface BuiltinContainer {
  readonly exited: Promise<number>
  /**
   * The programs of its image that can be run in it beside those of the node: by name, the command
   * that does their work.
   */
  readonly programs?: Readonly<Record<string, readonly string[]>>
  stop(): void | Promise<void>
  /** Resolves when it has no pending changes. */
  synced?(): Promise<void>
}

/** An image whose container is TypeScript code on the host that controls the guest. */
export interface BuiltinImage extends NamedImage {
  start(context: BuiltinContext): Promise<BuiltinContainer>
}

export type Image = ProcessImage | BuiltinImage

const images = new Map<string, Image>()

/** Registers an image; a later one of the same name replaces it. */
export function registerImage(image: Image): void {
  for (const name of image.names) images.set(name, image)
}

/** The repository of a reference: `docker.io/library/nginx:1.27@sha256:…` is `nginx`. */
export function repositoryOf(reference: string): string {
  const { repository } = parseImageReference(reference)
  return repository.replace(/^(index\.)?docker\.io\//, '').replace(/^library\//, '')
}

/** The image that a reference names. Undefined if the repository or tag does not exist. */
export function findImage(reference: string): Image | undefined {
  const image = images.get(repositoryOf(reference))
  const { tag = 'latest' } = parseImageReference(reference)
  return tag === 'latest' || image?.tags.test(tag) ? image : undefined
}

/** Names and purposes of all images, one line each. */
export function imageList(): string[] {
  return [...new Set(images.values())].map(({ names, about }) => `${names[0]} (${about})`)
}
