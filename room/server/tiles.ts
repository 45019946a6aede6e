// What the instructor's page is shown of a learner.

import type { LearnerDetail, LearnerTile, StepFact } from '../protocol.ts'
import { signOf } from '../sign.ts'
import { taskText } from '../tasks.ts'
import { factOf, type LearnerState, type RoomState } from './room-state.ts'

/** The tile of a learner; `offlineSince` is undefined while the learner's guide is connected. */
export function tileOf(learner: LearnerState, offlineSince: number | undefined): LearnerTile {
  const place = factOf(learner, 'place')
  const hand = factOf(learner, 'hand')
  const steps = stepFacts(learner)
  const lab = place?.fact.lab ?? steps[0]?.fact.lab
  const own = steps.filter(({ fact }) => fact.lab === lab)
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
  const isRaised = hand?.fact.raised === true && hand.at > learner.loweredAt
  return {
    tile: learner.tile,
    name: factOf(learner, 'name')?.fact.name ?? `learner ${learner.tile}`,
    lab,
    step: place?.fact.step ?? own[0]?.fact.step,
    since: place?.fact.since ?? learner.joinedAt,
    steps: Object.fromEntries(own.map(({ fact }) => [fact.step, tileStep(fact)])),
    points: sum(own.map(({ fact }) => fact.points)),
    hints: sum(own.map(({ fact }) => fact.hints)),
    hand: isRaised ? hand.at : undefined,
    offlineSince,
    left: factOf(learner, 'left')?.fact.left === true,
    tasks: taskCounts(learner),
  }
}

const tileStep = ({ verdict, hints, finding }: StepFact) => ({
  verdict,
  hints,
  ...(finding && verdict !== 'passed' && { sign: signOf(finding) }),
})

/** The facts about steps, of all labs, the latest first. */
export const stepFacts = ({ facts }: LearnerState): { at: number; fact: StepFact }[] =>
  [...facts.values()]
    .flatMap(({ at, fact }) => (fact.kind === 'step' ? [{ at, fact }] : []))
    .sort((one, other) => other.at - one.at || one.fact.step.localeCompare(other.fact.step, 'en'))

function taskCounts(learner: LearnerState): LearnerTile['tasks'] {
  const assigned = [...learner.tasks.values()].filter(({ givenAt }) => givenAt !== undefined)
  const answers = assigned.map(({ task }) => factOf(learner, 'task', `task ${task.id}`)?.fact.right)
  const count = (wanted: boolean | undefined) => answers.filter((right) => right === wanted).length
  return { open: count(undefined), right: count(true), wrong: count(false) }
}

/** Everything that the room knows of a learner. */
export function detailOf(learner: LearnerState): LearnerDetail {
  const kept = [...learner.facts.values()]
  return {
    tile: learner.tile,
    steps: stepFacts(learner).map(({ at, fact }) => ({ lab: fact.lab, step: fact.step, at, fact })),
    answers: kept.flatMap(({ fact }) =>
      fact.kind === 'answer'
        ? [{ lab: fact.lab, step: fact.step, what: fact.what, text: fact.text }]
        : [],
    ),
    tasks: [...learner.tasks.values()].flatMap(({ task, givenAt }) => {
      if (givenAt === undefined) return []
      const answer = factOf(learner, 'task', `task ${task.id}`)
      return [
        {
          id: task.id,
          ask: taskText(task),
          askedAt: givenAt,
          ...(answer && {
            answer: answer.fact.text,
            right: answer.fact.right,
            found: answer.fact.found,
            seconds: Math.max(0, Math.round((answer.at - givenAt) / 1000)),
          }),
        },
      ]
    }),
  }
}

/**
 * Answers to a poll with their number, the most frequent first; learners who were removed do not
 * count.
 */
export function countVotes(
  { learners }: RoomState,
  poll: string,
  choices: readonly string[],
): { answers: { text: string; count: number }[]; voters: number } {
  const counts = new Map(choices.map((choice) => [choice, 0]))
  let voters = 0
  for (const learner of learners.values()) {
    const vote = learner.isRemoved ? undefined : factOf(learner, 'vote', `vote ${poll}`)
    if (!vote || (choices.length > 0 && !choices.includes(vote.fact.text))) continue
    voters += 1
    counts.set(vote.fact.text, (counts.get(vote.fact.text) ?? 0) + 1)
  }
  const answers = [...counts].map(([text, count]) => ({ text, count }))
  return { answers: answers.sort((one, other) => other.count - one.count), voters }
}
