// The guide's page in a real browser, on a real cluster: one of each for all tests, which go on
// from one another.

import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { unseal } from '../../../course/incident/incident-note.ts'
import { currentNote } from '../../../course/incident/open.ts'
import { LabBench } from '../../../course/lab-bench.ts'
import { learnerEnvironment } from '../../../course/lint/fence-shell.ts'
import { daemonOf } from '../../../embedded/index.ts'
import { loadSpec } from '../../../grading/grader.ts'
import { readLab } from '../../../grading/lab-definition.ts'
import { Moments } from '../../../grading/moments.ts'
import { projectRoot, START } from '../../../host/layout.ts'
import { isLive, processStartTime } from '../../../host/live-process.ts'
import { silent } from '../../../host/progress.ts'
import { timeoutScale } from '../../../host/wait.ts'
import { findViolations, GuideBrowser, runAll } from './guide-browser.ts'
import { hasFocus, tabTo } from './hand.ts'
import { PageLearner, perform } from './learner.ts'

const lab = readLab(2)
const NODE = 'guide-page-test-worker'
/** So long after the last change, reads have become seldom. */
const SETTLE_MS = 25_000
const IDLE_MS = 20_000
/** Clock ticks of /proc/PID/stat in a second (sysconf _SC_CLK_TCK). */
const TICKS = 100
let guide: GuideBrowser
let page: Page
let learner: PageLearner

beforeAll(async () => {
  guide = await GuideBrowser.open('guide-page-test', lab.number)
  page = await guide.page()
  learner = new PageLearner(page, lab.number)
})

afterAll(async () => {
  await guide?.end()
})

afterEach(async ({ task }) => {
  if (task.result?.state !== 'fail' || !page) return
  const path = join(tmpdir(), `guide-page-${Date.now()}.png`)
  await page.screenshot({ path })
  console.error(`What the page showed at the end of "${task.name}" is in ${path}`)
})

const step = (id: string) => learner.step(id)
const state = (id: string) => learner.state(id)
const passed = (id: string) => learner.passed(id)
const goTo = (id: string) => learner.goTo(id)
const showTerminal = (name: string) => learner.showTerminal(name)
/** Works through a step; one of them without a mouse. */
const workThrough = (id: string) =>
  learner.workThrough(id, id === 'kube-ipvs0' ? byKeyboard : undefined)

const showNode = async (mode = 'ipvs') => {
  await page.getByRole('tab', { name: 'Dataplane' }).click()
  await page
    .locator('.dataplane')
    .getByRole('button', { name: `${NODE} ${mode}` })
    .click()
  await page.getByLabel('Because of').selectOption('')
}

test('the page is painted before any data has arrived, from its own files alone', async () => {
  const paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
  const looked = await guide.page({}, async (one) => {
    // Neither the lab nor a push is ever answered.
    await one.route('**/api/**', () => undefined)
    await one.routeWebSocket(/./, () => undefined)
  })
  await looked.getByText('Reading the lab').waitFor()
  await expect.poll(() => looked.evaluate<number>(paint)).toBeGreaterThan(0)
  const files = await looked.evaluate<string[]>(
    "performance.getEntriesByType('resource').filter(({ responseEnd }) => responseEnd > 0).map(({ name }) => new URL(name).pathname)",
  )
  expect(files.sort()).toEqual(['/main.css', '/main.js'])
  await looked.context().close()
  console.log(`The first paint came after ${Math.round(await page.evaluate<number>(paint))} ms.`)
})

/** Runs the commands of a step without a mouse, through a terminal that gives the focus back. */
async function byKeyboard(): Promise<void> {
  await page.locator('.text').focus()
  await tabTo(page, page.locator('.text button.run').first())
  await page.keyboard.press('Enter')
  await page.locator('.text button.run', { hasText: 'Run again' }).waitFor()
  const terminal = page.locator('.xterm-helper-textarea')
  await page.keyboard.press('Alt+1')
  await tabTo(page, terminal)
  await page.keyboard.press('Tab')
  expect(await hasFocus(page, terminal)).toBe(true)
  await page.keyboard.press('Escape')
  await page.keyboard.press('Tab')
  expect(await hasFocus(page, terminal)).toBe(false)
}

test(
  'lab 2 is solved by clicking Run, from the first to the last step, also after a reload',
  async () => {
    const failed = join(tmpdir(), `guide-page-failed-${process.pid}`)
    writeFileSync(failed, '')
    await showTerminal('host')
    await page.locator('.xterm-rows', { hasText: /[#$]/ }).waitFor()
    await page.keyboard.type(`trap 'echo "$BASH_COMMAND" >>${failed}' ERR\n`)
    await runAll(page, '.text')
    await page.getByRole('button', { name: 'Start' }).click()
    for (const { id } of lab.steps) {
      if (id === 'flush') await page.reload()
      await workThrough(id)
      await page.locator('.walk .main').click()
    }
    await page.locator('.submission').getByLabel('Your name').fill(guide.cluster.name)
    await page.getByRole('button', { name: 'Save submission' }).click()
    const saved =
      /(\d+\/\d+) points.*steps passed\. .*Saved as (submissions\/\S+\.labgrade)\.$/.exec(
        (await page.getByRole('status').filter({ hasText: 'Saved as' }).textContent()) ?? '',
      )
    const offline = (await loadSpec(lab)).steps.filter(({ needsCluster }) => !needsCluster)
    const most = offline.reduce((sum, { points }) => sum + points, 0)
    expect(saved?.[1]).toBe(`${most}/${most}`)
    rmSync(join(projectRoot, String(saved?.[2])))
    await expect.poll(() => page.locator('.score').textContent()).toContain('100 / 100 points')
    // The end names steps as the list of steps does.
    const conntrack = lab.steps.findIndex(({ id }) => id === 'conntrack')
    const last = page.locator('.text li', { hasText: lab.steps[conntrack]?.title }).last()
    expect(await last.textContent()).toMatch(`Step ${conntrack + 1}, `)
    // The page has kept a capture for each step, of the moment when it passed.
    const kept = new Moments('embedded', guide.cluster.name).all(lab.number).map(({ step }) => step)
    expect(kept.sort()).toEqual(lab.steps.map(({ id }) => id).sort())
    expect(readFileSync(failed, 'utf8'), 'commands of the text that failed').toBe('')
    rmSync(failed)
  },
  300_000 * timeoutScale(),
)

test('the header has one row at 1366 pixels, also with the longest numbers', async () => {
  const narrow = await guide.page({ viewport: { width: 1366, height: 768 } })
  const score = narrow.locator('header.top .score')
  await score.getByText('points').first().waitFor()
  await score.evaluate((element) => {
    const [points, ...others] = element.querySelectorAll(':scope > span')
    for (const other of others) other.remove()
    if (points) points.textContent = '100 / 100 points kept · 95 hold now 1 h 28 min'
  })
  const rows = await narrow
    .locator('header.top')
    .evaluate((header) => [header.clientHeight, header.querySelector('button')?.offsetHeight ?? 0])
  expect(rows[0]).toBeLessThan(2 * (rows[1] ?? 0))
  await narrow.context().close()
})

test('two pages show the same', async () => {
  const other = await guide.page()
  await goTo('sets')
  await other.locator('.claim', { hasText: step('sets')?.title }).waitFor()
  expect(await other.locator('.score strong').textContent()).toBe(
    await page.locator('.score strong').textContent(),
  )
  await other.getByRole('button', { name: 'Pause' }).click()
  await page.getByRole('button', { name: 'Resume' }).click()
  await other.getByRole('button', { name: 'Pause' }).waitFor()
  await other.context().close()
})

test('who has gone elsewhere while a lab is graded keeps the focus', async () => {
  await goTo('sets')
  const choice = page.getByRole('combobox', { name: 'Lab', exact: true })
  await tabTo(page, choice)
  await perform(page, 'go', { to: 'end' })
  await page.getByRole('heading', { name: /^Lab 2: / }).waitFor()
  expect(await hasFocus(page, choice)).toBe(true)
  await goTo('sets')
})

test('a step turns green by itself after a program that the guide knows nothing of, and tells it once', async () => {
  const member =
    (await guide.onNode(NODE, 'ipset list KUBE-CLUSTER-IP | grep -m1 ,tcp:')).split(' ')[0] ?? ''
  await goTo('sets')
  await passed('sets').waitFor()
  const heard = await announcements()
  const times: number[] = []
  const rounds = 4
  for (let round = 0; round < rounds; round++) {
    await guide.onNode(NODE, `ipset del KUBE-CLUSTER-IP ${member}`)
    await passed('sets').waitFor({ state: 'hidden' })
    await pause(Math.random() * 2000)
    await guide.onNode(NODE, `ipset add KUBE-CLUSTER-IP ${member}`)
    const began = performance.now()
    // A locator's own wait looks only every 500 ms after the first half second.
    await expect.poll(() => passed('sets').count(), { interval: 20 }).toBe(1)
    times.push(performance.now() - began)
  }
  times.sort((one, other) => one - other)
  const p95 = times[Math.ceil(rounds * 0.95) - 1] ?? 0
  console.log(
    `A step turns green after ${Math.round(times[rounds / 2] ?? 0)} ms (median), ${Math.round(p95)} ms (p95), under a load of ${loadavg()[0]?.toFixed(1)}.`,
  )
  const verdicts = await heard()
  expect(verdicts.filter((text) => text.includes('Passed'))).toHaveLength(rounds)
  expect(verdicts).toHaveLength(2 * rounds)
})

test('a chain that is flushed in a terminal of the page turns its step', async () => {
  const table = await guide.onNode(NODE, 'iptables-save -t nat')
  await goTo('prerouting')
  await passed('prerouting').waitFor()
  await showTerminal(NODE)
  await page.locator('.xterm-rows', { hasText: '#' }).waitFor()
  await page.keyboard.type('iptables -t nat -F KUBE-SERVICES\n')
  await passed('prerouting').waitFor({ state: 'hidden' })
  await page.locator('.finding', { hasText: NODE }).waitFor()
  await guide.onNode(NODE, `iptables-restore <<'END'\n${table}\nEND`)
  await passed('prerouting').waitFor()
})

test('the dataplane shows everything that exists because of a Service, why, and which counters move', async () => {
  await showNode()
  await page.getByLabel('Because of').selectOption('default/web')
  const tree = page.getByRole('tree')
  const server = tree.getByRole('treeitem', { name: /TCP 10\.96\.[\d.]+:80 / })
  // The page is drawn again in the next frame.
  await expect.poll(() => server.count()).toBe(1)
  const address = /[\d.]+:80/.exec((await server.textContent()) ?? '')?.[0]
  await server.click()
  await page.getByLabel('Selected entry').getByText('Service default/web').first().waitFor()
  await page.keyboard.press('ArrowDown')
  await tree.getByRole('treeitem', { selected: true, name: /-> 10\.244\./ }).waitFor()
  await guide.onNode(NODE, `curl -s --max-time 5 ${address}`)
  await tree.locator('.lit').first().waitFor()
})

test('the timeline steps back, and forward to now', async () => {
  await page.getByRole('tab', { name: 'Timeline' }).click()
  await page.getByRole('button', { name: '← Before' }).click()
  await page.getByRole('button', { name: 'Show the nodes at this moment' }).click()
  await page.getByText('You see a moment of the past').waitFor()
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.getByText('You see a moment of the past').waitFor({ state: 'hidden' })
})

test('the path of a packet shows the rule that stops it, and what the kernel counts of a real one', async () => {
  const path = page.getByRole('region', { name: 'Path in ipvs mode' })
  await guide.onNode(NODE, 'iptables -I OUTPUT -p tcp --dport 80 -j REJECT')
  await page.getByRole('tab', { name: 'Packet path' }).click()
  await page.getByRole('combobox', { name: 'From', exact: true }).fill('host')
  await page.getByRole('combobox', { name: 'To', exact: true }).fill('svc/web:80')
  await page.getByRole('combobox', { name: 'On', exact: true }).selectOption(NODE)
  await page.getByRole('button', { name: 'Show the path' }).click()
  await path.locator('.stop', { hasText: 'OUTPUT' }).waitFor()
  expect(await path.locator('.drawing .bad').count()).toBeGreaterThan(0)
  await page.getByRole('region', { name: 'Path in iptables mode' }).waitFor()
  await guide.onNode(NODE, 'iptables -D OUTPUT 1')
  await page.getByRole('button', { name: 'Send a real one' }).click()
  await path.getByText('the kernel counted').first().waitFor()
  expect(await path.locator('.stop').count()).toBe(0)
  // The path of another packet does not stay below the reason.
  await page.getByRole('combobox', { name: 'To', exact: true }).fill('svc/none:80')
  await page.getByRole('button', { name: 'Show the path' }).click()
  await page.getByRole('alert').filter({ hasText: 'none' }).waitFor()
  expect(await path.count()).toBe(0)
  await page.getByRole('button', { name: 'Send a real one' }).waitFor()
  expect(guide.complaints.splice(0)).toEqual([expect.stringContaining('409')])
})

test('on a narrow page, the reason of a refused action is where the learner has scrolled to, each time', async () => {
  const narrow = await guide.page({ viewport: { width: 390, height: 800 } })
  await narrow.locator('.text').waitFor()
  await narrow.getByRole('tab', { name: 'Packet path' }).click()
  const to = narrow.getByRole('combobox', { name: 'To', exact: true })
  // Until the nodes were read, every path is refused for that reason.
  await narrow.locator('#places-To option').first().waitFor({ state: 'attached' })
  await to.fill('svc/none:80')
  const alerts = narrow.getByRole('alert')
  await narrow.evaluate(`
    alerts = 0
    new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const { role } of addedNodes) if (role === 'alert') alerts++
    }).observe(document.body, { childList: true, subtree: true })
  `)
  for (const times of [1, 2]) {
    await narrow.getByRole('button', { name: 'Show the path' }).click()
    await expect.poll(() => narrow.evaluate('alerts')).toBe(times)
    await alerts.filter({ hasText: 'none' }).waitFor()
    expect(await narrow.evaluate<number>('scrollY')).toBeGreaterThan(0)
    const { y, height } = (await alerts.boundingBox()) ?? { y: -1, height: 0 }
    expect(y).toBeGreaterThanOrEqual(0)
    expect(y + height).toBeLessThan(800)
  }
  // The browser complains about each refusal in its console.
  expect(guide.complaints.splice(0)).toEqual([
    expect.stringContaining('409'),
    expect.stringContaining('409'),
  ])
  await narrow.context().close()
})

test('what nodes hold is text, whatever it contains', async () => {
  const hostile = '<img src=x onerror=document.title=1>'
  await page.getByRole('tab', { name: 'Terminals' }).click()
  await guide.onNode(
    NODE,
    `iptables -I FORWARD -m comment --comment '${hostile}'; ipset create '<b>set</b>' hash:ip`,
  )
  await page.locator('.latest').getByText('<b>set</b>').waitFor()
  await showNode()
  await page.getByRole('treeitem', { name: '<b>set</b> hash:ip' }).click()
  await page.getByLabel('Selected entry').getByText('<b>set</b>').first().waitFor()
  await page.getByRole('tab', { name: 'Timeline' }).click()
  await page.locator('.timeline').getByText(hostile).first().waitFor()
  expect(await page.locator('img, b').count()).toBe(0)
  expect(await page.title()).toContain('kube-service-labs')
  await guide.onNode(NODE, `iptables -D FORWARD 1; ipset destroy '<b>set</b>'`)
})

test('the name of a Service is text, whatever it contains', async () => {
  const hostile = 'default/<img src=x onerror=alert(1)>'
  const looked = await guide.page({}, (one) =>
    one.routeWebSocket('**/events', (socket) => {
      const server = socket.connectToServer()
      server.onMessage((message) => socket.send(String(message).replaceAll('default/web', hostile)))
    }),
  )
  await looked.getByRole('tab', { name: 'Dataplane' }).click()
  await looked.getByLabel('Because of').selectOption(hostile)
  const server = looked.getByRole('treeitem', { name: /TCP 10\.96\.[\d.]+:80 / })
  // The page is drawn again in the next frame.
  await expect.poll(() => server.count()).toBe(1)
  await server.click()
  await looked
    .getByLabel('Selected entry')
    .getByText(`Everything because of ${hostile}`)
    .first()
    .waitFor()
  expect(await looked.locator('img').count()).toBe(0)
  await looked.context().close()
})

test('axe-core finds nothing: in no tab, light, dark and narrow', async () => {
  await goTo('sets')
  const found: string[] = []
  for (const [name, options, rules] of [
    ['light', { colorScheme: 'light' }, undefined],
    // Only its colours are other ones.
    ['dark', { colorScheme: 'dark' }, ['color-contrast']],
    ['narrow', { viewport: { width: 390, height: 800 } }, undefined],
  ] as const) {
    const looked = await guide.page(options)
    await looked.locator('.claim').waitFor()
    for (const [index, tab] of (await looked.getByRole('tab').all()).entries()) {
      await tab.click()
      const title = await tab.textContent()
      // Another tab changes nothing beside it.
      const part = index === 0 ? ':root' : '.tools'
      found.push(
        ...(await findViolations(looked, part, rules)).map(
          (violation) => `${name}, ${title}: ${violation}`,
        ),
      )
    }
    for (const id of name === 'narrow' ? lab.steps.map((one) => one.id) : ['sets']) {
      await goTo(id)
      await looked.locator('.claim', { hasText: step(id)?.title }).waitFor()
      const wide = await looked.evaluate<number>(
        'document.documentElement.scrollWidth - innerWidth',
      )
      if (wide > 0) found.push(`${name}, ${id}: the page is ${wide} px wider than the window`)
    }
    await looked.context().close()
  }
  expect(found).toEqual([])
})

test('what a node prints into a terminal is text: no link, no title, nothing in the clipboard', async () => {
  await showTerminal(NODE)
  const title = await page.title()
  const link = '\\033]8;;http://127.0.0.1:1/evil\\007c%sk\\033]8;;\\007'
  await page.keyboard.type(
    `clear; printf '\\033]0;evil\\007\\033]52;c;ZXZpbA==\\007${link}\\n' lic\n`,
  )
  const text = page.locator('.xterm-rows span', { hasText: 'click' }).first()
  await text.waitFor()
  await text.click({ modifiers: ['ControlOrMeta'], force: true })
  expect(await page.title()).toBe(title)
  expect(page.context().pages()).toHaveLength(1)
  await page.context().grantPermissions(['clipboard-read'])
  expect(await page.evaluate('navigator.clipboard.readText()')).not.toContain('evil')
})

test(
  'the cluster goes down in the middle of a lab and comes back: the page tells it, and goes on by itself',
  async () => {
    await goTo('ipvs')
    await guide.cluster.down(silent)
    const trouble = page.getByRole('alert').filter({ hasText: 'make up' })
    await trouble.waitFor()
    await page.getByRole('button', { name: 'Run make up' }).click()
    await trouble.waitFor({ state: 'hidden', timeout: 120_000 * timeoutScale() })
    // A new cluster has no notes: the lab begins again.
    await page.getByRole('button', { name: 'Start' }).click()
    await state('web').waitFor()
    await workThrough('web')
    await showNode('iptables')
    await page.getByLabel('Because of').selectOption('default/web')
    await page
      .getByRole('tree')
      .getByRole('treeitem', { name: /KUBE-SVC-/ })
      .first()
      .waitFor()
    // The shell of a node ended with its node; it is one key away.
    await showTerminal(NODE)
    await page.locator('.xterm-rows', { hasText: 'Press Enter to start it again' }).waitFor()
    await page.keyboard.press('Enter')
    await page.keyboard.type('echo on $((6 * 7)) $(hostname)\n')
    await page.locator('.xterm-rows', { hasText: `on 42 ${NODE}` }).waitFor()
    expect(guide.complaints).toEqual([])
  },
  300_000 * timeoutScale(),
)

test(
  'an incident is opened, diagnosed and given up by keyboard alone',
  async () => {
    const go = async (target: Locator) => {
      await tabTo(page, target)
      await page.keyboard.press('Enter')
    }
    // The focus is in a terminal, to which Tab alone belongs.
    await page.keyboard.press('Escape')
    await tabTo(page, page.getByRole('combobox', { name: 'Lab', exact: true }))
    await page.getByRole('option', { name: /^Lab 8:/ }).waitFor({ state: 'attached' })
    const opened: (string | null)[] = []
    page.on('request', (request) => {
      if (request.method() === 'POST' && request.url().endsWith('/api/lab'))
        opened.push(request.postData())
    })
    // Keys only choose: an unwanted one must not reset the cluster.
    for (const key of ['ArrowDown', 'End', 'l', 'Home']) await page.keyboard.press(key)
    for (let lab = 1; lab < 8; lab++) await page.keyboard.press('ArrowDown')
    await tabTo(page, page.getByRole('button', { name: 'Start lab 8' }))
    const warning = page.getByText('What you made in lab 2 can be lost')
    await warning.waitFor()
    expect(opened).toEqual([])
    await page.keyboard.press('Enter')
    await page.getByRole('tab', { name: 'Incident' }).waitFor()
    expect(opened).toEqual([JSON.stringify({ number: 8 })])
    // A lab that was begun continues, which resets nothing.
    await page.getByRole('combobox', { name: 'Lab', exact: true }).selectOption('2')
    await page.getByRole('button', { name: 'Continue lab 2' }).waitFor()
    expect(await warning.count()).toBe(0)
    await page.getByRole('combobox', { name: 'Lab', exact: true }).selectOption('8')
    await page.keyboard.press('Alt+5')
    await tabTo(page, page.getByLabel('Seed'))
    await page.keyboard.type('two')
    await page.keyboard.press('Enter')
    const report = page.getByRole('region', { name: 'Report' })
    await report.waitFor({ timeout: 60_000 * timeoutScale() })
    // The incident is shown, and beside it its first step.
    await expect.poll(() => hasFocus(page, report)).toBe(true)
    await page.locator('.claim', { hasText: readLab(8).steps[0]?.title }).waitFor()
    expect(await hasFocus(page, report)).toBe(true)
    const note = await currentNote(await LabBench.open(guide.cluster, silent))
    const choice = note?.choices.indexOf(unseal(note.sealed)?.id ?? '') ?? -1
    expect(choice).toBeGreaterThanOrEqual(0)
    await page.keyboard.press('Alt+5')
    await tabTo(page, page.locator('.causes > summary'))
    await page.keyboard.press('Enter')
    await tabTo(page, page.getByRole('radio').first())
    await page.keyboard.press('Space')
    for (let presses = 0; presses < choice; presses++) await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByText('That is the cause').waitFor()
    // The form with the focus is gone; the keyboard goes on from its place.
    await go(page.getByRole('button', { name: 'Give up' }))
    await page.keyboard.press('Enter')
    await page
      .getByRole('region', { name: 'Debrief' })
      .waitFor({ timeout: 60_000 * timeoutScale() })
    expect(await findViolations(page)).toEqual([])
  },
  300_000 * timeoutScale(),
)

// With an open incident, whose Pods are probed every second.
test('watching costs little while nothing happens', async () => {
  const root = guide.process.pid ?? 0
  const cluster = daemonOf(guide.cluster.name) ?? 0
  let looks = 0
  page.on('websocket', (socket) => socket.on('framereceived', () => looks++))
  await page.reload()
  await pause(SETTLE_MS)
  const before = { looks, server: cpuMs(root), cluster: cpuMs(cluster) }
  await pause(IDLE_MS)
  const share = (ms: number) => `${((ms / IDLE_MS) * 100).toFixed(1)} %`
  console.log(
    `While nothing happens, the guide takes ${share(cpuMs(root) - before.server)} of a core, the cluster with its kernel ${share(cpuMs(cluster) - before.cluster)}, under a load of ${loadavg()[0]?.toFixed(1)}.`,
  )
  // A look counts a packet of its own, and kube-proxy's syncs start programs: at most one push a
  // second comes of them.
  expect(looks - before.looks).toBeLessThan(IDLE_MS / 1000)
})

test('only one guide works on a cluster, and its end leaves nothing', async () => {
  for (const [script, ...words] of [['scripts/guide.ts'], ['scripts/lab.ts', '2']] as const) {
    const env = { ...learnerEnvironment(guide.cluster.name), LAB: '2', CI: '1' }
    const second = spawnSync(process.execPath, [START, script, ...words], {
      cwd: projectRoot,
      env,
      encoding: 'utf8',
    })
    expect(second.status).toBe(2)
    expect(second.stdout + second.stderr).toContain(
      `Process ${guide.process.pid} already serves the guide's page`,
    )
  }
  await showTerminal('host')
  await page.keyboard.type('clear; sleep 1000 & echo "<$!>" $KUBECONFIG "$NAME-$LAB-$MAKEFLAGS"\n')
  const rows = page.locator('.xterm-rows')
  await expect.poll(() => rows.textContent()).toMatch(/<\d+> /)
  const shown = (await rows.textContent()) ?? ''
  expect(shown.replaceAll(/\s+/g, '')).toContain(
    `${guide.cluster.kubeconfig}${guide.cluster.name}--`,
  )
  const pid = Number(/<(\d+)> /.exec(shown)?.[1])
  const job = { pid, startTime: processStartTime(pid) ?? '' }
  expect(isLive(job)).toBe(true)
  expect(await guide.stop()).toBe(0)
  expect(isLive(job)).toBe(false)
  await expect(fetch(guide.url)).rejects.toThrow()
  await page.getByRole('alert').filter({ hasText: 'No connection to the guide' }).waitFor()
})

/** Collects what the live region says from now on. */
async function announcements(): Promise<() => Promise<string[]>> {
  await page.evaluate(`
    heard = []
    said = document.querySelector('body > #page > p[role=status]')
    new MutationObserver(() => heard.push(said.textContent)).observe(said, { childList: true, characterData: true, subtree: true })
  `)
  return async () =>
    (await page.evaluate<string[]>('heard')).filter((text) => text.startsWith('Step '))
}

/** CPU time of a process and all that it started, in milliseconds. */
function cpuMs(root: number): number {
  const stats = readdirSync('/proc').flatMap((name) => {
    try {
      const text = readFileSync(`/proc/${Number(name)}/stat`, 'utf8')
      const fields = text.slice(text.lastIndexOf(') ') + 2).split(' ')
      const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number)
      const ticks = (utime ?? 0) + (stime ?? 0) + (cutime ?? 0) + (cstime ?? 0)
      return [{ pid: Number(name), parent: Number(fields[1]), ms: (ticks / TICKS) * 1000 }]
    } catch {
      // It is no process, or has ended.
      return []
    }
  })
  const sum = (pid: number): number =>
    stats.reduce(
      (ms, one) => ms + (one.pid === pid ? one.ms : 0) + (one.parent === pid ? sum(one.pid) : 0),
      0,
    )
  return sum(root)
}
