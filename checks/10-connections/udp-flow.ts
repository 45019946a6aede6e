// Lab 10: a UDP flow whose Pod is replaced. Its entry in conntrack would last as long as it is
// used; kube-proxy deletes it.

import { type ConntrackEntry, parseConntrack } from '../../dataplane/conntrack.ts'
import type { Service } from '../../dataplane/objects.ts'
import {
  type CheckContext,
  type EvidenceCheck,
  type LiveContext,
  onceSeen,
  type Truth,
} from '../../grading/check-context.ts'
import {
  clusterService,
  expectReadyPod,
  podsWithLabel,
  WEB_NAMESPACE,
} from '../../grading/expect-object.ts'
import { expectFound, expectThat, onNode } from '../../grading/failure.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { expectShopProgrammed } from './shop.ts'

const NAME = 'quotes'
/** The reader always sends from this port. */
const READER_PORT = 5300
const APPLY = 'kubectl apply -f labs/10-connections/manifests/quotes.yaml'
const REPLACE = `kubectl delete pod -l app=${NAME}`
const SHOW_ANSWERS = 'kubectl logs reader | uniq -c'
const LOG_SECONDS = 3600

interface Quotes {
  service: Service
  address: string
  /** Its only Pod that is ready and not being deleted. */
  pod: { name: string; address: string }
  reader: { address: string; node: string }
}

/** The Service quotes with its ready Pod, and the Pod that reads it; fails if one is missing. */
function quotesOf(snapshot: Snapshot): Quotes {
  const { service, address } = clusterService(snapshot, NAME, {
    expected: `the Service ${NAME}`,
    next: APPLY,
  })
  const [found] = podsWithLabel(snapshot, NAME)
  const pod = expectReadyPod(found, `of ${NAME}`, {
    inspect: `kubectl get pods -l app=${NAME}`,
    expected: `a ready Pod of ${NAME}`,
    next: APPLY,
  })
  const reader = expectReadyPod(snapshot.find('Pod', WEB_NAMESPACE, 'reader'), 'reader', {
    inspect: 'kubectl get pod reader',
    expected: 'a ready Pod reader',
    next: APPLY,
  })
  return { service, address, pod: { ...pod, name: found?.metadata.name ?? '' }, reader }
}

/** quotes has a ready Pod, and every node has its rules. */
export const quotesAreRead = onceSeen('udp', async (context: CheckContext) => {
  quotesOf(context.snapshot)
  expectShopProgrammed(context)
  return {}
})

const listEntries = (address: string) => `conntrack -L -p udp --orig-dst ${address}`

/** The entry of the reader's flow on its node. */
async function flowOf(
  { live }: LiveContext,
  { address, reader }: Quotes,
): Promise<ConntrackEntry | undefined> {
  const { stdout } = await live.readOnNode(reader.node, `${listEntries(address)} 2>/dev/null`)
  return parseConntrack(stdout).find(
    ({ original }) => original.source === reader.address && original.sourcePort === READER_PORT,
  )
}

/**
 * Evidence: two Pods have answered the reader on its one port, and the entry of this flow leads to
 * the Pod that is there now.
 */
export const flowMovedOn: EvidenceCheck = async (context) => {
  const { live, snapshot } = context
  const quotes = quotesOf(snapshot)
  const log = await live.log({ namespace: WEB_NAMESPACE, name: 'reader' }, LOG_SECONDS)
  const answers = log.split('\n').filter((line) => line.startsWith(`${NAME}-`))
  const pods = [...new Set(answers)]
  expectThat(pods.length >= 2 && answers.at(-1) === quotes.pod.name, {
    inspect: SHOW_ANSWERS,
    expected: `answers of two Pods of ${NAME}, the last ones of ${quotes.pod.name}`,
    actual: pods.join(', ') || 'none',
    next: REPLACE,
  })
  const entry = expectFound(await flowOf(context, quotes), {
    node: quotes.reader.node,
    inspect: onNode(quotes.reader.node, listEntries(quotes.address)),
    expected: `an entry of the reader's port ${READER_PORT}`,
  })
  expectThat(entry.reply.source === quotes.pod.address, {
    node: quotes.reader.node,
    inspect: onNode(quotes.reader.node, listEntries(quotes.address)),
    expected: `an entry that leads to ${quotes.pod.address}`,
    actual: `one to ${entry.reply.source}`,
  })
  return { pods: pods.length }
}

/** Predict: what the reader gets after the Pod was replaced. */
export function answerAfterReplacement({ snapshot }: CheckContext): Truth {
  quotesOf(snapshot)
  return {
    accepts: ['answers-of-the-new-pod'],
    inspect: SHOW_ANSWERS,
    wrong: [
      {
        when: 'no-answer',
        because:
          'That is what conntrack alone would do: the reader sends every second, so its entry never ends. kube-proxy deletes it when the endpoint is gone.',
      },
      {
        when: 'answers-of-the-old-pod',
        because: 'That Pod is gone, and so is its address.',
      },
    ],
    because:
      'kube-proxy deletes the entries of UDP whose endpoint is gone. The next datagram is the first one of a flow again, and rules choose its Pod.',
  }
}

/** Question: of which protocol kube-proxy deletes entries. */
export function whatKubeProxyDeletes({ snapshot }: CheckContext): Truth {
  quotesOf(snapshot)
  return {
    accepts: ['udp'],
    inspect: SHOW_ANSWERS,
    wrong: [
      {
        when: 'tcp',
        because:
          'Your kept connection of step pinned went on after its endpoint had left the rules.',
      },
      {
        when: 'both',
        because:
          'Of TCP it deletes none: a connection whose Pod is gone ends by a timeout or a reset, and the client opens a new one.',
      },
    ],
    because:
      'A UDP flow has no end that a client could notice. Without this it would send to the old address for as long as it sends.',
  }
}
