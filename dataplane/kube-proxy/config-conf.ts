import { isMap, isScalar, type Pair, parseDocument, type Scalar, type YAMLMap } from 'yaml'
import { Refusal } from '../refusal.ts'

/** kube-proxy's configuration cannot be changed as requested. */
export class ConfigConfError extends Refusal {}

/** A change of a KubeProxyConfiguration by `make ipvs` and `make iptables`. */
export interface ModeChange {
  mode: string
  /** Unchanged if undefined. */
  scheduler?: string
}

function parse(text: string) {
  const document = parseDocument(text)
  const fault = document.errors[0]
  if (fault)
    throw new ConfigConfError(
      `kube-proxy's config.conf is not YAML: ${fault.message.split('\n')[0]}`,
    )
  if (!isMap(document.contents))
    throw new ConfigConfError("kube-proxy's config.conf is not a mapping of fields.")
  return document.contents as YAMLMap<Scalar<string>>
}

/** The mode and scheduler that a config.conf sets; an empty string if kube-proxy chooses. */
export function readMode(text: string): Required<ModeChange> {
  const root = parse(text)
  const textAt = (path: string[]) => {
    const value = root.getIn(path)
    return typeof value === 'string' ? value : ''
  }
  return { mode: textAt(['mode']), scheduler: textAt(['ipvs', 'scheduler']) }
}

/**
 * Writes mode and scheduler into a config.conf without changing comments, order, quotes or
 * indentation.
 * @throws ConfigConfError if the text is not a YAML mapping, or `ipvs` is not a section
 */
export function writeMode(text: string, { mode, scheduler }: ModeChange): string {
  const withMode = setField(text, parse(text), 'mode', mode)
  const changed = scheduler === undefined ? withMode : setScheduler(withMode, scheduler)
  const found = readMode(changed)
  if (found.mode !== mode || (scheduler !== undefined && found.scheduler !== scheduler))
    throw new ConfigConfError(
      `Mode "${mode}" could not be written into kube-proxy's config.conf; edit it by hand.`,
    )
  return changed
}

function setScheduler(text: string, scheduler: string): string {
  const root = parse(text)
  const section = pairOf(root, 'ipvs')?.value
  if (isMap(section) && section.items.length > 0)
    return setField(text, section as YAMLMap<Scalar<string>>, 'scheduler', scheduler)
  const empty =
    section === undefined ||
    section === null ||
    isMap(section) ||
    (isScalar(section) && section.value === null)
  if (!empty)
    throw new ConfigConfError('The field "ipvs" of kube-proxy\'s config.conf is not a section.')
  return setField(text, root, 'ipvs', `{scheduler: ${scheduler}}`)
}

type YamlField = Pair<Scalar<string>, { range?: [number, number, number] | null } | null>

function pairOf(map: YAMLMap<Scalar<string>>, name: string): YamlField | undefined {
  return map.items.find((pair) => isScalar(pair.key) && pair.key.value === name) as
    | YamlField
    | undefined
}

/** Replaces the text of a field's value, or adds the field before the map's first one. */
function setField(text: string, map: YAMLMap<Scalar<string>>, name: string, value: string): string {
  const pair = pairOf(map, name)
  if (pair) {
    const keyEnd = pair.key.range?.[1] ?? 0
    const [start, end] = pair.value?.range ?? [0, 0]
    // A field without a value has an empty range, or none at all: the text is inserted after the
    // colon.
    if (end > start) return text.slice(0, start) + value + text.slice(end)
    const colon = text.indexOf(':', keyEnd) + 1
    return `${text.slice(0, colon)} ${value}${text.slice(colon)}`
  }
  const first = map.items[0]
  const at = isScalar(first?.key) ? (first.key.range?.[0] ?? 0) : 0
  if (map.flow) return `${text.slice(0, at)}${name}: ${value}, ${text.slice(at)}`
  const indent = text.slice(text.lastIndexOf('\n', at - 1) + 1, at)
  return `${text.slice(0, at)}${name}: ${value}\n${indent}${text.slice(at)}`
}
