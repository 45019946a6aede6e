// The guide's own bash in a real terminal: its marks, and the variables that follow the cluster.

import { EventEmitter } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { labVariables, writeVariables } from '../../guide/server/lab-variables.ts'
import { Terminals } from '../../guide/server/terminals.ts'
import { projectRoot } from '../../host/layout.ts'
import { recordedSnapshot } from './recorded-snapshot.ts'

const MARK = 'abcdef0123456789'
let folder: string
let variables: string
let reports: string[]
let terminals: Terminals

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'guide-bash-'))
  variables = join(folder, 'variables.sh')
  // A shell of the test before may report its end later.
  const own: string[] = []
  reports = own
  terminals = new Terminals({
    commandFor: () => ({
      file: 'bash',
      args: ['--rcfile', join(projectRoot, 'guide/shell/bashrc'), '-i'],
      env: { ...process.env, HOME: folder, GUIDE_MARK: MARK, GUIDE_VARIABLES: variables },
      cwd: folder,
      mark: MARK,
    }),
    onChange: () => {},
    reportsOf: () => ({
      started: (command) => own.push(`${command}`),
      ended: () => own.push('end'),
      interrupted: () => {},
    }),
  })
})
afterEach(async () => {
  await terminals.end()
  rmSync(folder, { recursive: true })
})

test('each command is reported with its text and its status; what a program prints is no mark', async () => {
  const id = await terminals.open('host')
  const enter = (line: string) => terminals.enter(id, line, () => true)
  expect(await enter('true')).toEqual({ status: 0 })
  expect(await enter('(exit 28)')).toEqual({ status: 28 })
  expect(await enter("printf '\\e]133;D;0\\a\\e]133;D;wrong;0\\a'; false")).toEqual({ status: 1 })
  expect(await enter('echo one \\\n  two')).toEqual({ status: 0 })
  expect(await enter('env | grep GUIDE_')).toEqual({ status: 1 })
  expect(reports.filter((report) => report !== 'end')).toHaveLength(5)
  expect(reports.slice(0, 4)).toEqual(['true', 'end', '(exit 28)', 'end'])
})

test('a line waits for the shell: it is never typed into a program that reads', async () => {
  const id = await terminals.open('host')
  const first = terminals.enter(id, 'read -r -t 1 word; echo "[$word]" >read', () => true)
  const second = terminals.enter(id, 'test "$(cat read)" = "[]"', () => true)
  expect(await first).toEqual({ status: 0 })
  expect(await second).toEqual({ status: 0 })
})

test('what is typed while a line runs does not stand for the next line', async () => {
  const id = await terminals.open('host')
  const enter = (line: string) => terminals.enter(id, line, () => true)
  const page = Object.assign(new EventEmitter(), {
    ...({ OPEN: 1, readyState: 1, bufferedAmount: 0 } as const),
    send: () => {},
    close: () => {},
    terminate: () => {},
  })
  terminals.attach(id, page)
  expect(await enter('true')).toEqual({ status: 0 })
  const waits = 'until [ -e go ]; do sleep 0.05; done'
  const waited = enter(waits)
  await expect.poll(() => reports.includes(waits)).toBe(true)
  for (const keys of ['(exit ', '9)\r', '(exit 8)\r']) page.emit('message', Buffer.from(keys), true)
  writeFileSync(join(folder, 'go'), '')
  expect(await waited).toEqual({ status: 0 })
  expect(await enter('(exit 5)')).toEqual({ status: 5 })
  expect(await enter('(exit 6)')).toEqual({ status: 6 })
  const started = reports.filter((report) => report !== 'end')
  expect(started).toEqual(['true', waits, '(exit 9)', '(exit 8)', '(exit 5)', '(exit 6)'])
})

test('a prompt of the learner’s own keeps the marks, and so does a prompt command', async () => {
  const id = await terminals.open('host')
  const enter = (line: string) => terminals.enter(id, line, () => true)
  for (const line of [
    "PS1='mine> '",
    'PS0=',
    "PROMPT_COMMAND='echo mine >>prompts'",
    'PROMPT_COMMAND="$PROMPT_COMMAND; true"; PS1=\'> \'',
  ])
    expect(await enter(line), line).toEqual({ status: 0 })
  expect(await enter('(exit 7)')).toEqual({ status: 7 })
  expect(await enter('grep -q mine prompts')).toEqual({ status: 0 })
  // Without any prompt command of the guide there is no status, but the next line is typed.
  expect(await enter('unset PROMPT_COMMAND')).toEqual({})
  expect(await enter('(exit 7)')).toEqual({})
  expect(reports.filter((report) => report === 'end')).toHaveLength(8)
})

test('the variables of the labs follow the cluster, and a value of the learner’s own stays until it changes', async () => {
  writeVariables(variables, labVariables(recordedSnapshot('iptables', 'web-three-endpoints')))
  const id = await terminals.open('host')
  const enter = (line: string) => terminals.enter(id, line, () => true)
  expect(await enter('[[ $WEB == 10.96.* ]]')).toEqual({ status: 0 })
  expect(await enter('WEB=mine')).toEqual({ status: 0 })
  expect(await enter('[ "$WEB" = mine ]')).toEqual({ status: 0 })
  // The prompt is there already: the next command has the new address.
  writeVariables(variables, 'WEB=10.96.9.9\n')
  expect(await enter('[ "$WEB" = 10.96.9.9 ]')).toEqual({ status: 0 })
})

test('what the guide does before a command changes neither $? nor $_, and a trap of the learner’s own stays', async () => {
  const id = await terminals.open('host')
  const enter = (line: string) => terminals.enter(id, line, () => true)
  expect(await enter('false; [ $? = 1 ]')).toEqual({ status: 0 })
  expect(await enter('mkdir made && cd $_ && [[ $PWD == */made ]]')).toEqual({ status: 0 })
  writeFileSync(join(folder, '.bashrc'), 'trap "seen=mine" DEBUG\n')
  const other = await terminals.open('host')
  expect(await terminals.enter(other, '[ "$seen" = mine ]', () => true)).toEqual({ status: 0 })
})

test('the short commands of `make aliases` are there before the learner defines them', async () => {
  writeFileSync(join(folder, 'Makefile'), 'exec:\n\t@echo "$$CMD" >ran\n')
  const id = await terminals.open('host')
  const enter = (line: string) => terminals.enter(id, line, () => true)
  expect(await enter('cd /; ipt KUBE-SERVICES')).toEqual({ status: 0 })
  expect(readFileSync(join(folder, 'ran'), 'utf8')).toBe('iptables -t nat -nvL KUBE-SERVICES\n')
  expect(await enter('ips() { return 5; }; ips')).toEqual({ status: 5 })
})
