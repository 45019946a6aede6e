import type { CheckContext } from '../../grading/check-context.ts'
import { backendsOnTwoNodes } from '../02-ipvs/web.ts'
import { mustAnswerOnNode } from './agent-requests.ts'
import { agentScene } from './node-agent.ts'

/** web has its Pods, the client is ready, and the agent beside it answers on the node's own address. */
export async function stageIsSet(context: CheckContext): Promise<void> {
  backendsOnTwoNodes(context)
  const scene = agentScene(context)
  if (context.live) await mustAnswerOnNode(context.live, scene)
}
