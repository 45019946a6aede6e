import type { Circumstance, MigrationReport, ServiceChange } from './report-shape.ts'

const EFFECTS: Record<ServiceChange['effect'], string> = {
  stops: 'No longer answers',
  starts: 'Answers from now on',
  source: 'The endpoints see another client address',
  balancing: 'Other endpoints, or other shares',
  failure: 'Fails in another way',
}
const CLIENTS: Record<ServiceChange['calls'][number]['client'], string> = {
  pod: 'Pod',
  node: 'node',
  outside: 'outside',
  allowed: 'outside, in the source ranges',
  endpoint: 'its own endpoint',
}
const SEVERITIES: Record<Circumstance['severity'], string> = {
  breaks: 'Stops something',
  check: 'Check before the change',
  note: 'To know',
}
/** More calls and names are counted instead of listed. */
const LISTED = 6

/** A paragraph wrapped at spaces; a longer word has a line of its own. */
function wrap(text: string, width: number, indent: string, hanging = indent): string[] {
  const lines: string[] = []
  let line = indent
  for (const [index, word] of text.split(' ').entries()) {
    if (index > 0 && line.length + 1 + word.length > width) {
      lines.push(line)
      line = `${hanging}${word}`
    } else line += index === 0 ? word : ` ${word}`
  }
  return [...lines, line]
}

const shortText = (names: readonly string[], separator = ', '): string =>
  names.length > LISTED
    ? `${names.slice(0, LISTED - 1).join(separator)} and ${names.length - LISTED + 1} more`
    : names.join(separator)

/** The report for people, in lines of at most `width` columns where words allow it. */
export function printMigrationReport(report: MigrationReport, width = 80): string[] {
  const { from, to, nodes, probes, changes, circumstances, breaks, leftOut } = report
  const effects = Object.keys(EFFECTS) as ServiceChange['effect'][]
  const severities = Object.keys(SEVERITIES) as Circumstance['severity'][]
  const counted = `${nodes.length} nodes, ${probes} connections traced before and after.`
  return [
    ...wrap(`kube-proxy ${from.version} ${from.mode} → ${to.version} ${to.mode}`, width, ''),
    ...wrap(counted, width, ''),
    ...leftOut.flatMap((text) => wrap(`Left out: ${text}.`, width, '')),
    ...effects.flatMap((effect) => {
      const alike = changes.filter((change) => change.effect === effect)
      if (alike.length === 0) return []
      return ['', `${EFFECTS[effect]} (${alike.length})`, ...alike.flatMap(changeLines(width))]
    }),
    ...severities.flatMap((severity) => {
      const alike = circumstances.filter((one) => one.severity === severity)
      if (alike.length === 0) return []
      return ['', `${SEVERITIES[severity]} (${alike.length})`, ...alike.flatMap(noteLines(width))]
    }),
    '',
    breaks > 0
      ? `${breaks} ${breaks === 1 ? 'finding' : 'findings'} by which something stops.`
      : 'Nothing that answers now stops, as far as these objects tell.',
  ]
}

const changeLines =
  (width: number) =>
  ({ service, cause, calls, before, after, field, advice }: ServiceChange): string[] => {
    const listed = calls.slice(0, LISTED)
    const more = calls.length - listed.length
    const why = [before, after].filter((text) => text !== '')
    const modes = why.length === 2 ? `before it ${before}; then it ${after}` : why.join()
    return [
      ...wrap(`${service ?? 'any address'}: ${cause}`, width, '  '),
      ...listed.flatMap(callLines(width)),
      ...(more > 0 ? [`    and ${more} more kinds of calls (--json lists all)`] : []),
      ...(modes === '' ? [] : wrap(`why: ${modes}.`, width, '    ', '      ')),
      ...wrap(`field: ${field}`, width, '    ', '      '),
      ...wrap(`fix: ${advice}`, width, '    ', '      '),
    ]
  }

const callLines =
  (width: number) =>
  ({ client, target, to, protocol, nodes, before, after }: ServiceChange['calls'][number]) => {
    const where = `${target} ${shortText(to)}${protocol === 'tcp' ? '' : `/${protocol}`}`
    return [
      ...wrap(`${CLIENTS[client]} → ${where}, on ${shortText(nodes)}`, width, '    ', '      '),
      ...wrap(`before: ${before}`, width, '      ', '        '),
      ...wrap(`after:  ${after}`, width, '      ', '        '),
    ]
  }

const noteLines =
  (width: number) =>
  ({ id, text, field, advice, concerns }: Circumstance): string[] => [
    ...wrap(`${id}: ${text}`, width, '  ', '    '),
    ...(concerns.length > 0
      ? wrap(`concerns: ${shortText(concerns)}`, width, '    ', '      ')
      : []),
    ...wrap(`field: ${field}`, width, '    ', '      '),
    ...wrap(`fix: ${advice}`, width, '    ', '      '),
  ]
