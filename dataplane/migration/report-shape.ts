import * as z from 'zod'

const side = z.object({
  mode: z.enum(['iptables', 'ipvs', 'nftables', 'userspace']),
  version: z.string().describe("kube-proxy's version"),
})

const call = z.object({
  client: z
    .enum(['pod', 'node', 'outside', 'allowed', 'endpoint'])
    .describe(
      'a Pod of the node, the node itself, a machine outside, one outside within the source ranges, an endpoint of the Service',
    ),
  target: z
    .enum([
      'ClusterIP',
      'external IP',
      'load balancer',
      'node port',
      'node port on another address',
      'node port on loopback',
      'unused port',
      'unallocated ClusterIP',
    ])
    .describe('what the client calls'),
  to: z.array(z.string()).describe('address:port, one for each node for a node port'),
  protocol: z.enum(['tcp', 'udp', 'sctp']),
  nodes: z.array(z.string()).describe('where the client is, or where its packet arrives'),
  before: z.string(),
  after: z.string(),
  because: z.array(z.string()).describe('the rules or circumstances that stop it, before or after'),
})

const change = z.object({
  effect: z
    .enum(['stops', 'starts', 'source', 'balancing', 'failure'])
    .describe(
      'some or all of the calls are no longer answered; an answer that was not there; another client address; other endpoints or shares; fails in another way',
    ),
  service: z.string().nullable().describe('namespace/name; null for an address without a Service'),
  cause: z.string().describe('id of the explanation'),
  field: z.string().describe('the field of the object or of the configuration that decides'),
  before: z.string().describe('what the old mode does'),
  after: z.string().describe('what the new mode does'),
  mend: z.string().describe('what to do before the change'),
  calls: z.array(call),
})

const circumstance = z.object({
  id: z.string(),
  severity: z
    .enum(['breaks', 'check', 'note'])
    .describe('stops something for certain; may, which the objects do not show; to know'),
  text: z.string(),
  field: z.string(),
  mend: z.string(),
  concerns: z.array(z.string()).describe('nodes or Services; empty for the cluster'),
})

/** The JSON of `scripts/migration.ts --json`. */
export const migrationReportShape = z.object({
  from: side,
  to: side,
  nodes: z.array(z.string()),
  probes: z.number().int().describe('connections that were traced, each before and after'),
  breaks: z.number().int().describe('changes and circumstances by which something stops'),
  changes: z.array(change),
  circumstances: z.array(circumstance),
  leftOut: z.array(z.string()).describe('objects that could not be read, with the reason'),
})

type PublishedReport = z.infer<typeof migrationReportShape>

/** The JSON has `mend` for what is `advice` here: scripts of users read that field. */
type WithAdvice<Published> = Omit<Published, 'mend'> & { advice: string }

export type ServiceChange = WithAdvice<PublishedReport['changes'][number]>
export type Circumstance = WithAdvice<PublishedReport['circumstances'][number]>

export interface MigrationReport extends Omit<PublishedReport, 'changes' | 'circumstances'> {
  changes: ServiceChange[]
  circumstances: Circumstance[]
}

const withMend = ({ advice, ...rest }: ServiceChange | Circumstance) => ({ ...rest, mend: advice })

/** The report with the fields of its JSON, in the order of the shape. */
export const publishMigration = (report: MigrationReport): PublishedReport =>
  migrationReportShape.parse({
    ...report,
    changes: report.changes.map(withMend),
    circumstances: report.circumstances.map(withMend),
  })
