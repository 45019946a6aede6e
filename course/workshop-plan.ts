// How a workshop uses the labs: three hours, one day, two days, an afternoon more. Pure.

/**
 * A part of a plan. `lab` is one of the labs; with `part` only what it names, else all of it with
 * its slides.
 */
interface PlanBlock {
  minutes: number
  what: string
  lab?: number
  part?: string
}

/** The days of a plan, each a list of blocks from its start on. */
export interface WorkshopPlan {
  name: 'three hours' | 'one day' | 'two days' | 'an afternoon more'
  /** Minutes after midnight at which each day begins. */
  beginsAt: number
  /** What the blocks of each day add up to. */
  minutesPerDay: number
  days: readonly (readonly PlanBlock[])[]
}

/** Where a plan has minutes for a lab that takes longer. */
export const SHORTEN =
  'The opening, questions and an incident together give up minutes first; a break keeps 10, a lunch 45.'

const NINE = 9 * 60
const lab = (number: number, minutes: number, part?: string): PlanBlock => ({
  lab: number,
  minutes,
  what: `Lab ${number}${part === undefined ? '' : `, ${part}`}`,
  ...(part !== undefined && { part }),
})
const pause = (minutes: number, what = 'Break'): PlanBlock => ({ minutes, what })
const opening = (minutes: number): PlanBlock => ({ minutes, what: 'Opening' })

export const WORKSHOP_PLANS: readonly WorkshopPlan[] = [
  {
    name: 'three hours',
    beginsAt: NINE,
    minutesPerDay: 180,
    days: [
      [
        opening(15),
        lab(1, 35, 'part 1a'),
        lab(2, 45, 'to the virtual servers'),
        pause(10),
        lab(3, 30, 'to the logged client'),
        lab(5, 30, 'to the rule in IPVS mode'),
        { minutes: 15, what: 'One incident together' },
      ],
    ],
  },
  {
    name: 'one day',
    beginsAt: NINE,
    minutesPerDay: 480,
    days: [
      [
        opening(25),
        lab(1, 130),
        pause(15),
        lab(2, 130),
        pause(45, 'Lunch'),
        lab(3, 105),
        pause(10),
        { minutes: 20, what: 'One incident together' },
      ],
    ],
  },
  {
    name: 'two days',
    beginsAt: NINE,
    minutesPerDay: 480,
    days: [
      [
        opening(30),
        lab(1, 130),
        pause(15),
        lab(2, 130),
        pause(60, 'Lunch'),
        lab(3, 105),
        { minutes: 10, what: 'Questions' },
      ],
      [
        lab(5, 110),
        pause(15),
        lab(6, 45),
        pause(50, 'Lunch'),
        lab(7, 90),
        pause(10),
        { minutes: 120, what: 'Lab 8 and the exam', lab: 8 },
        { minutes: 40, what: 'Incidents presented, questions' },
      ],
    ],
  },
  {
    name: 'an afternoon more',
    beginsAt: 13 * 60,
    minutesPerDay: 265,
    days: [[lab(9, 90), pause(15), lab(10, 60, 'part 10a'), pause(10), lab(11, 90)]],
  },
]

/** The plan of that name. Throws Error with the names that exist. */
export function workshopPlanOf(name: string): WorkshopPlan {
  const found = WORKSHOP_PLANS.find((plan) => plan.name === name)
  if (found) return found
  throw new Error(
    `"${name}" is not a plan; use ${WORKSHOP_PLANS.map((plan) => plan.name).join(', ')}`,
  )
}

const clock = (minutes: number) =>
  `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`

/**
 * A plan as rows of a Markdown table: when, what, minutes; `dayOf` numbers the days where there are
 * several.
 */
function workshopRows({ beginsAt, days }: WorkshopPlan): string[] {
  return days.flatMap((blocks, day) => {
    let at = beginsAt
    return blocks.map(({ what, minutes }) => {
      const when = `${days.length > 1 ? `day ${day + 1}, ` : ''}${clock(at)}`
      at += minutes
      return `| ${when} | ${what} | ${minutes} |`
    })
  })
}

/** The table of a plan in Markdown. */
export const workshopTable = (plan: WorkshopPlan): string =>
  ['| when | what | minutes |', '|---|---|---|', ...workshopRows(plan)].join('\n')
