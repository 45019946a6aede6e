import { parseArgs } from 'node:util'
import { acceptedFamily } from '../../dataplane/ip-address.ts'
import { UserError } from '../../host/main.ts'

export const FORMATS = ['iptables-save', 'ipset-save', 'ipvsadm-save', 'ip-addr', 'nft', 'json'] as const
export type Format = (typeof FORMATS)[number]

const MODES = ['iptables', 'ipvs', 'nftables', 'userspace'] as const
const FAMILIES = ['ipv4', 'ipv6'] as const

export const HELP = `Usage: node --import tsx scripts/expect.ts --objects FILE --node NAME --mode MODE [--kube-proxy VERSION] [--as FORMAT]
       node --import tsx scripts/expect.ts --diff DIR --node NAME --mode MODE [--kube-proxy VERSION] [--objects FILE]

Prints what a genuine kube-proxy programs on a node, or compares it with what a node held.

  --objects FILE      what "kubectl get nodes,services,endpointslices -A -o json" prints; - is standard input
  --node NAME         the node, as kubectl names it
  --mode MODE         ${MODES.join(', ')}; may be left out when the objects hold kube-proxy's ConfigMap
  --kube-proxy VER    its version, for example v1.30 or v1.20.2; what the Node says when left out
  --as FORMAT         ${FORMATS.join(', ')} (all of it, when left out)
  --diff DIR          compare with a capture (DIR/nodes/NAME/...) or with the folder of one node's files
  --config FILE       a KubeProxyConfiguration (the ConfigMap's config.conf)
  --address IP        one of the node's own addresses, may be repeated; else from the capture or the Node
  --family FAMILY     ${FAMILIES.join(' or ')}: whose iptables rules

Exit status: 0 printed or equal, 1 different, 2 trouble.
`

export interface ExpectArguments {
  objects?: string
  node: string
  mode?: (typeof MODES)[number]
  version?: string
  as?: Format
  diff?: string
  config?: string
  addresses: string[]
  family: (typeof FAMILIES)[number]
}

function rawArguments(argv: readonly string[]) {
  try {
    const string = { type: 'string' } as const
    return parseArgs({
      args: [...argv],
      options: {
        objects: string,
        node: string,
        mode: string,
        'kube-proxy': string,
        as: string,
        diff: string,
        config: string,
        address: { type: 'string', multiple: true },
        family: string,
        help: { type: 'boolean', short: 'h' },
      },
    }).values
  } catch (error) {
    throw new UserError(`${error instanceof Error ? error.message.split('\n')[0] : error} See --help.`)
  }
}

/**
 * Reads the command line.
 * @throws UserError naming everything that is missing or wrong at once.
 */
export function expectArguments(argv: readonly string[]): ExpectArguments | 'help' {
  const values = rawArguments(argv)
  if (values.help) return 'help'
  const faults: string[] = []
  const choice = <T extends string>(option: string, text: string | undefined, choices: readonly T[]): T | undefined => {
    const found = choices.find((one) => one === text)
    if (text !== undefined && found === undefined)
      faults.push(`--${option} "${text}" is none of ${choices.join(', ')}.`)
    return found
  }
  const mode = choice('mode', values.mode, MODES)
  const as = choice('as', values.as, FORMATS)
  const family = choice('family', values.family, FAMILIES)
  if (!values.node) faults.push('--node is missing.')
  if (values.objects === undefined && values.diff === undefined) faults.push('--objects is missing.')
  if (values.as !== undefined && values.diff !== undefined) faults.push('--as and --diff exclude each other.')
  for (const address of values.address ?? [])
    if (!acceptedFamily(address)) faults.push(`--address "${address}" is no IP address.`)
  if (faults.length > 0) throw new UserError(`${faults.join('\n')}\nSee: node --import tsx scripts/expect.ts --help`)
  return {
    node: values.node ?? '',
    addresses: values.address ?? [],
    family: family ?? 'ipv4',
    ...(values.objects === undefined ? {} : { objects: values.objects }),
    ...(values['kube-proxy'] === undefined ? {} : { version: values['kube-proxy'] }),
    ...(mode === undefined ? {} : { mode }),
    ...(as === undefined ? {} : { as }),
    ...(values.diff === undefined ? {} : { diff: values.diff }),
    ...(values.config === undefined ? {} : { config: values.config }),
  }
}
