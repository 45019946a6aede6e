import type { Api } from '../../apiserver/api.ts'
import type { Machine, Placement } from '../../machine/machine.ts'
import type { Container, GuestFile, Pod } from '../objects.ts'

/** Where an image's container runs. */
export interface ImageContext {
  pod: Pod
  container: Container
  /** Name of the node. */
  node: string
  podIP: string
}

interface NamedImage {
  /** Repositories that mean this image, without `docker.io/`, `library/` and tag. The first is its own name. */
  names: readonly string[]
  /** The existing tags; `latest` always exists. */
  tags: RegExp
  /** One line for the list of images that exist. */
  about: string
}

/** An image whose containers are processes of the guest. Its files are the guest's plus its own. */
export interface ProcessImage extends NamedImage {
  entrypoint?: readonly string[]
  command: readonly string[]
  env?: Readonly<Record<string, string>>
  stopSignal?: string
  files?(context: ImageContext): GuestFile[]
  /** Folders that are empty at the start, whatever the guest has there. */
  emptyFolders?: readonly string[]
  /** A line of its own command's output after which it serves; a container counts as running only then. */
  serving?: RegExp
}

/** What a built-in container is given. */
export interface BuiltinContext extends ImageContext {
  machine: Machine
  /** The node's namespaces for Pods with hostNetwork, else the Pod's network namespace. */
  placement: Placement
  api: Api
  env: Readonly<Record<string, string>>
  /** One line of the container's standard output. */
  log(line: string): void
  /** One line of its standard error. */
  stderr(line: string): void
}

/** A running built-in container. `exited` settles with its exit code, also after `stop`. */
export interface BuiltinContainer {
  readonly exited: Promise<number>
  stop(signal: string): void | Promise<void>
}

/** An image whose container is TypeScript on the host that works on the guest. */
export interface BuiltinImage extends NamedImage {
  start(context: BuiltinContext): Promise<BuiltinContainer>
}

export type Image = ProcessImage | BuiltinImage

const images = new Map<string, Image>()

/** Makes an image known; a later one of the same name takes its place. */
export function registerImage(image: Image): void {
  for (const name of image.names) images.set(name, image)
}

/** The repository of a reference: `docker.io/library/nginx:1.27@sha256:…` is `nginx`. */
export function repositoryOf(reference: string): string {
  const bare = reference.replace(/@.*$/, '').replace(/:[^:/]*$/, '')
  return bare.replace(/^(index\.)?docker\.io\//, '').replace(/^library\//, '')
}

/** The image that a reference names. Undefined where a registry would find no such repository or tag. */
export function findImage(reference: string): Image | undefined {
  const image = images.get(repositoryOf(reference))
  const tag = /:([^:/]*)$/.exec(reference.replace(/@.*$/, ''))?.[1] ?? 'latest'
  return tag === 'latest' || image?.tags.test(tag) ? image : undefined
}

/** Names and purposes of all images, one line each. */
export function imageList(): string[] {
  return [...new Set(images.values())].map(({ names, about }) => `${names[0]} (${about})`)
}
